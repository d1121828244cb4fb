//! The file that `JOBHALL_INPUTS` names: the jobs that a job comes after, with their results as far as they fit.

use jobhall_protocol::{INPUT_RESULTS_BYTES, Input, InputName};

/// The JSON document. The parent is not in it, because what it has stored changes while the job runs.
pub(crate) fn document(inputs: Vec<Input>) -> serde_json::Result<Vec<u8>> {
    let mut left = INPUT_RESULTS_BYTES;
    let after = inputs.into_iter().filter(|input| matches!(input.n, InputName::Position(_)));
    let after: Vec<_> = after.map(|input| input.within(&mut left)).collect();
    serde_json::to_vec(&after)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn ground_6_the_file_has_results_up_to_a_mebibyte_over_all_pages_and_no_parent() {
        let input = |n: Value, bytes: usize| -> Input {
            let result = "x".repeat(bytes - 2);
            let all = json!({"n": n, "job": 17, "type": "split", "key": null, "state": "succeeded",
                "result": result, "artifacts": []});
            serde_json::from_value(all).unwrap()
        };
        let half = INPUT_RESULTS_BYTES / 2;
        let inputs = vec![
            input(json!(0), half),
            input(json!(1), half + 1),
            input(json!(2), half),
            input(json!("parent"), 2),
        ];
        let document: Value = serde_json::from_slice(&document(inputs).unwrap()).unwrap();
        let told: Vec<_> =
            document.as_array().unwrap().iter().map(|one| (&one["n"], &one["left_out"])).collect();
        assert_eq!(told, [(&json!(0), &Value::Null), (&json!(1), &json!(true)), (&json!(2), &Value::Null)]);
        assert_eq!((&document[1]["result"], &document[1]["type"]), (&Value::Null, &json!("split")));
    }
}
