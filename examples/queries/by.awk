BEGIN { FS = OFS = "," }
NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
{ sum[$at[column]] += $at["amount"] }
END { for (key in sum) print key, sum[key] | "sort"; close("sort") }
