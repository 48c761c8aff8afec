use super::*;

#[test]
fn a_cpu_has_a_column() {
    let table = "           CPU0       CPU2\n  LOC:        7         11   Local timer interrupts\n   25:   1  2  virtio\n  ERR:   5\n";
    assert_eq!([0, 1, 2].map(|cpu| of_cpu(table, cpu)), [Some(13), None, Some(13)]);
    assert_eq!(of_cpu("", 0), None);
}
