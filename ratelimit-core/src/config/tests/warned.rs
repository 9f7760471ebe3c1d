use super::*;

#[test]
fn a_limit_that_lets_nothing_pass_is_meant_and_a_pattern_of_interfaces_is_not() {
    let config = |name: &str, bytes: &str| {
        format!(
            "[[interface]]\n\
             name = \"{name}\"\n\
             [policy.default]\n\
             limits = [{{ bytes = {bytes}, per = \"1h\" }}]\n"
        )
    };
    let warnings = |text: String| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.toml");
        fs::write(&path, text).unwrap();
        inspect(&path).unwrap().1
    };
    assert_eq!(warnings(config("eth0", "1")).len(), 0);
    assert_eq!(warnings(config("eth0", "2")).len(), 1);
    let of_pattern = warnings(config("eth*", "1"));
    assert_eq!(of_pattern.len(), 1, "{of_pattern:?}");
}
