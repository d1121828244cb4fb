-- What a submit key stands for.
SELECT body, answer, at FROM submit_keys WHERE scope = ?1 AND key = ?2
