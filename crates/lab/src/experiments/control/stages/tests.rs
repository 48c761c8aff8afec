use super::*;

/// Threads of a group with a virtual machine as its balancer: its two vhost threads, its vCPU, and those of the back end.
const FIVE: [&str; 5] =
    ["l1f20a_lb0/near#7", "l1f20a_lb0/far#8", "l1f20a_lb0/vcpu#9", "l1f20a_0/vcpu0#10", "l1f20a_0/vhost#11"];

fn seats(name: &str) -> [Option<usize>; 5] {
    let options = Options { cpus: vec![3, 5, 7, 9, 11], ..Options::default() };
    let (_, stand) = multistage(&options).into_iter().find(|(case, _)| case == name).unwrap();
    let seats = stand.unwrap().seats.unwrap();
    FIVE.map(|thread| seats.cpu(thread))
}

#[test]
fn the_five_threads_are_where_the_paper_has_them() {
    assert_eq!(seats("2-cores/case-A"), [5, 5, 3, 3, 5].map(Some));
    assert_eq!(seats("2-cores/case-B"), [3, 3, 5, 3, 5].map(Some));
    assert_eq!(seats("4-cores/bind"), [9, 9, 7, 11, 5].map(Some));
}

#[test]
fn balancers_that_are_threads_sit_with_the_vhost_threads() {
    let seats = case_b(0, 1);
    assert_eq!(["l1f20a/lb0#4", "l1f20a/lb1#5"].map(|thread| seats.cpu(thread)), [Some(0); 2]);
    assert_eq!(["l1f20a/group#6", "ringroad/clock#1"].map(|thread| seats.cpu(thread)), [None; 2]);
}

#[test]
fn what_is_not_bound_is_free_on_all_cores() {
    let options = Options { cpus: vec![0, 1, 2, 3, 4], ..Options::default() };
    for (name, stand) in multistage(&options) {
        let stand = stand.unwrap();
        assert_eq!(stand.seats.is_none(), name.contains("no-bind"), "{name}");
        assert_eq!(stand.lines.contains("affinity"), name.contains("no-bind"), "{name}");
        assert_eq!(stand.beside_load, name.starts_with('2'), "{name}");
    }
}
