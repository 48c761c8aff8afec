use super::*;

#[test]
fn lines_are_added_up_by_what_they_count() {
    let line = |forwarded: u64| {
        format!(
            r#"{{"counters":{{"r.vcpu0.forwarded":{forwarded},"r.vcpu0.near.kicks":3,"r.vcpu1.far.kicks":4,
            "r.vcpu0.exit.register_write":2,"r.near.tx.kicks":99,"r.vcpu0.near.rx_frames":99}}}}"#
        )
        .replace('\n', "")
    };
    let mut before = Counts::default();
    before.add(&line(5));
    assert_eq!(before, Counts { forwarded: 5, kicks: 7, exits: 2 });
    let mut after = before;
    after.add(&line(10));
    after.add("no line of ours");
    assert_eq!(after.each_since(&before), Some([0.7, 0.2]));
    assert_eq!(after.each_since(&after), None, "nothing was forwarded");
}

#[test]
fn a_line_that_tells_is_waited_for() {
    let counted = RunCounters::by(&b""[..]);
    assert_eq!(counted.so_far(), Counts::default());
    assert!(counted.each_since(&Counts::default(), Duration::from_millis(10)).is_err());
    let line = r#"{"counters":{"r.vcpu0.forwarded":2,"r.vcpu0.near.kicks":1}}"#;
    let counted = RunCounters::by(line.as_bytes());
    let each = counted.each_since(&Counts::default(), Duration::from_secs(20)).expect("a line");
    assert_eq!(each, [0.5, 0.0]);
}
