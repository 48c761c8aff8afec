use super::*;

#[test]
fn lines_of_the_kernel_are_read() {
    let begin = "ffff0000: 00000002 00000000 0001";
    assert_eq!(listens_at(&format!("{begin}0000 0001 01 1234 /run/a.sock")), Some("/run/a.sock"));
    assert_eq!(listens_at("ffff0000: 00000003 00000000 00000000 0001 03 1234 /run/a.sock"), None);
    assert_eq!(listens_at("Num       RefCount Protocol Flags    Type St Inode Path"), None);
}
