use super::*;

fn show(point: &mut TracePoint, mut octets: Vec<u8>) {
    point.observe(&[Frame::new(ring::Bytes::from_slice(&mut octets))]);
}

#[test]
fn a_line_says_what_was_where() {
    let trace = Trace::new(4);
    let mut point = trace.point("edge/wan-rx");
    let mut octets = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    octets.resize(60, 0);
    show(&mut point, octets);
    show(&mut point, vec![0; 13]);
    let (events, overwritten) = trace.take();
    assert_eq!(overwritten, 0);
    let line = events[0].to_string();
    assert!(line.ends_with(" edge/wan-rx 60 octets 0800 02:00:00:00:00:02 > 02:00:00:00:00:01"), "{line}");
    assert!(events[1].to_string().ends_with(" 13 octets without an Ethernet header"));
}

#[test]
fn keeps_the_latest_and_counts_the_others() {
    let trace = Trace::new(2);
    for len in 60..65 {
        show(&mut trace.point("p"), vec![0; len]);
    }
    let (events, overwritten) = trace.take();
    assert_eq!((events[0].len, events[1].len, overwritten), (63, 64, 3));
    assert!(trace.take().0.is_empty());
    let none = Trace::new(0);
    show(&mut none.point("p"), vec![0; 60]);
    assert_eq!(none.take(), (vec![], 1));
}
