use super::*;

#[test]
fn an_end_is_one_line() {
    let end = CaptureEnd { captured: 12, missed: 3, complete: true, ran_ns: 1_500_000_000 };
    assert_eq!(summary(&end), "12 frames captured in 1.5 s, 3 missed");
}

#[test]
fn a_file_that_cannot_be_made_is_named() {
    let error = format!("{:#}", open(Path::new("/there/is/none/x.pcap")).expect_err("no folder"));
    assert!(error.starts_with("cannot write /there/is/none/x.pcap: "), "{error}");
    assert!(open(Path::new("-")).is_ok());
}
