use super::steal_percent;

#[test]
fn steal_is_the_part_of_all_ticks_of_all_cpus() {
    let stat = "cpu  1 0 1 7 0 0 0 1 0 0\ncpu0 5 0 5 30 5 0 0 5 99 99\ncpu1 5 0 5 35 0 0 0 5 99 99\nintr 5\n";
    assert_eq!(steal_percent(stat), Some(10.0));
    assert_eq!(steal_percent("cpu0 0 0 0 0 0 0 0 0\n"), None);
    assert_eq!(steal_percent("cpu0 1 2 3\n"), None);
    assert_eq!(steal_percent("cpu0 a b\n"), None);
    assert_eq!(steal_percent(""), None);
}
