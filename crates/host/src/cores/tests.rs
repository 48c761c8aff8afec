use super::{allow, allowed, online, parse_list, pin};

#[test]
fn lists_of_cpus_are_read_as_the_kernel_writes_them() {
    assert_eq!(parse_list("0-3,8,10-11\n").unwrap(), [0, 1, 2, 3, 8, 10, 11]);
    assert_eq!(parse_list("5").unwrap(), [5]);
    assert!(parse_list("\n").unwrap().is_empty());
    assert_eq!(parse_list("1,0,1").unwrap(), [0, 1]);
    for bad in ["x", "1-", "-1", "3-1", "0-99999999"] {
        assert!(parse_list(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_pinned_thread_is_allowed_one_cpu() {
    let cpu = *allowed().unwrap().last().unwrap();
    assert!(online().unwrap().contains(&cpu));
    let seen = std::thread::spawn(move || pin(cpu).and_then(|()| allowed())).join().unwrap().unwrap();
    assert_eq!(seen, [cpu]);
}

#[test]
fn a_pinned_thread_is_let_onto_all_cpus_again() {
    let all = allowed().unwrap();
    let (first, wanted) = (all[0], all.clone());
    let again = move || pin(first).and_then(|()| allow(&wanted)).and_then(|()| allowed());
    assert_eq!(std::thread::spawn(again).join().unwrap().unwrap(), all);
    assert!(allow(&[usize::MAX]).is_err() && allow(&[]).is_err());
}

#[test]
fn a_cpu_that_does_not_exist_is_named() {
    assert!(pin(1023).unwrap_err().to_string().contains("1023"));
    assert!(pin(usize::MAX).is_err());
}
