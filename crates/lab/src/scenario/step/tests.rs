use super::*;

#[test]
fn rates_are_those_of_each_router() {
    let step = Step { seconds: 2.0, offered: vec![4000, 8000], forwarded: vec![2000, 0] };
    assert_eq!((step.offered_kpps(0), step.offered_kpps(1)), (2.0, 4.0));
    assert_eq!((step.forwarded_kpps(0), step.forwarded_kpps(1), step.forwarded_kpps(2)), (1.0, 0.0, 0.0));
    let mut all = Step { seconds: 1.0, offered: vec![5000, 1], forwarded: vec![1000, 0] };
    all.add(&step);
    assert_eq!((all.offered_kpps(0), all.forwarded_kpps(0), all.offered[1]), (3.0, 1.0, 8001));
}
