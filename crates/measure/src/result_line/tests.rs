use super::{ResultLine, number};
use crate::stats::Summary;

#[test]
fn the_result_line_is_the_one_that_scripts_read() {
    let summary = Summary::of(&[131.25, 128.0, 140.5, 126.0, 133.0]);
    let line = ResultLine::new("forward/kvm/virtio-net/64", "mpps", summary)
        .with("lost", 0)
        .with_number("exits_per_packet", Some(0.000_012_34))
        .with_number("c2c_ns", Some(87.41))
        .with_number("far_median", None);
    assert_eq!(
        line.to_string(),
        "RESULT name=forward/kvm/virtio-net/64 unit=mpps median=131.2 min=126.0 max=140.5 n=5 lost=0 \
         exits_per_packet=0.00001234 c2c_ns=87.41"
    );
}

#[test]
fn a_result_without_samples_says_so() {
    let line = ResultLine::new("boot/kvm", "ms", None).to_string();
    assert_eq!(line, "RESULT name=boot/kvm unit=ms median=nan min=nan max=nan n=0");
}

#[test]
fn figures_have_four_digits() {
    let figures = [
        (0.0, "0"),
        (1.0, "1.000"),
        (-2.5, "-2.500"),
        (12.3456, "12.35"),
        (999.96, "1000.0"),
        (1234.56, "1235"),
        (123_456_789.0, "123456789"),
        (0.05, "0.05000"),
        (1e-12, "0.000000000"),
        (f64::NAN, "nan"),
        (f64::INFINITY, "nan"),
    ];
    for (value, text) in figures {
        assert_eq!(number(value), text);
    }
}

#[test]
fn a_printed_line_is_read_back() {
    let line =
        ResultLine::new("a/b", "mpps", Summary::of(&[1.5, 2.5, 3.5])).with("c2c_ns", 90).with("lost", 7);
    assert_eq!(ResultLine::parse(&line.to_string()), Some(line.clone()));
    assert_eq!(line.get("lost"), Some("7"));
    assert_eq!(line.get("found"), None);
    assert_eq!(
        ["median", "n", "lost", "found"].map(|key| line.figure(key)),
        [Some(2.5), Some(3.0), Some(7.0), None]
    );
}

#[test]
fn other_output_is_not_a_result() {
    let lines = [
        "",
        "RESULT",
        "RESULT ",
        "RESULT name=x",
        "RESULT name=x unit=mpps median=fast min=1 max=1 n=1",
        "RESULT name=x unit=mpps median=1 min=1 n=1",
        "RESULT name=x unit=mpps median=1 min=1 max=1 n=-1",
        "RESULT name=x unit median=1 min=1 max=1 n=1",
        "result name=x unit=mpps median=1 min=1 max=1 n=1",
    ];
    for line in lines {
        assert_eq!(ResultLine::parse(line), None, "{line}");
    }
}
