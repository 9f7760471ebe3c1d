use super::*;

#[test]
fn bytes_of_one_node_are_counted_by_a_token_bucket_unless_another_algorithm_is_written() {
    let limits = |limits: &str| {
        let text =
            format!("[[interface]]\nname = \"eth0\"\n[policy.default]\nlimits = [{limits}]\n");
        let limits = load_text(&text).default_policy.limits;
        let limits: Vec<String> = limits.iter().map(ToString::to_string).collect();
        limits.join(", ")
    };
    for (written, meant) in [
        (
            r#"bytes = "10MB", per = "1s""#,
            "10MB per 1s (token-bucket, burst 10MB)",
        ),
        (
            r#"bytes = "1MB", per = "100ms""#,
            "1MB per 100ms (token-bucket, burst 2500kB)",
        ),
        (
            r#"bytes = "9GB", per = "1d""#,
            "9GB per 1d (token-bucket, burst 9GB)",
        ),
        (
            r#"bytes = "10MB", per = "1s", burst = "5MB""#,
            "10MB per 1s (token-bucket, burst 5MB)",
        ),
        (
            r#"bytes = "1MB", per = "100ms", burst = "auto""#,
            "1MB per 100ms (token-bucket, burst 2500kB)",
        ),
        (
            r#"bytes = "10MB", per = "1s", algorithm = "fixed-window""#,
            "10MB per 1s (fixed-window)",
        ),
        (r#"packets = 10, per = "100ms""#, "10 packets per 100ms"),
        (
            r#"packets = 10, per = "100ms", algorithm = "token-bucket", burst = "auto""#,
            "10 packets per 100ms (token-bucket, burst 10)",
        ),
    ] {
        assert_eq!(limits(&format!("{{ {written} }}")), meant, "{written}");
    }
}
