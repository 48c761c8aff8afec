use super::steal_percent;

#[test]
fn steal_is_the_eighth_number() {
    assert_eq!(steal_percent("cpu  10 0 10 70 0 0 0 10 99 99\ncpu0 1 2\n"), Some(10.0));
    assert_eq!(steal_percent("cpu  1 2 3\n"), None);
    assert_eq!(steal_percent("cpu  0 0 0 0 0 0 0 0\n"), None);
    assert_eq!(steal_percent("cpu  a b\n"), None);
    assert_eq!(steal_percent(""), None);
}
