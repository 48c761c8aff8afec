use super::*;

#[test]
fn what_fits_is_a_part_of_each_core() {
    let mut asked = promise("edge", 100e3, 5200.0);
    asked.needs.push(Need { cpu: 0, cost: seen(2600.0) });
    // Two threads on one core are added up.
    asked.needs.push(Need { cpu: 1, cost: seen(2600.0) });
    let shares = admit(&[core(0), core(1), core(2)], &[], &asked).expect("it fits");
    let rounded: Vec<_> = shares.iter().map(|(cpu, share)| (*cpu, (share * 1e6).round() / 1e6)).collect();
    assert_eq!(rounded, [(0, 0.1), (1, 0.3)]);
}

#[test]
fn what_does_not_fit_is_refused_with_the_arithmetic() {
    let core = Core { reserved: 0.05, ..core(1) };
    let held = [promise("west", 150e3, 5200.0)];
    let refusal = admit(&[core], &held, &promise("edge", 400e3, 5200.0)).expect_err("it does not");
    assert_eq!(
        refusal.to_string(),
        "400 kpps x 5200 cycles (measured over 1000 packets) = 2.08 GHz of 2.60 GHz on CPU 1, 0.80; 0.35 already promised; at most 0.90 can be; \
         275 kpps would fit"
    );
    assert_eq!(refusal.router, "edge");
    // The rate that is said to fit does fit.
    assert!(admit(&[core], &held, &promise("edge", 275e3, 5200.0)).is_ok());
    // A router's own promise is not counted against it.
    assert!(admit(&[core], &held, &promise("west", 420e3, 5200.0)).is_ok());
}

#[test]
fn an_estimate_is_called_one() {
    let mut asked = promise("edge", 1e6, 9000.0);
    asked.needs[0].cost.basis = Basis::Default;
    let line = admit(&[core(1)], &[], &asked).expect_err("too much").to_string();
    assert!(
        line.starts_with("1 Mpps x 9000 cycles (an estimate: fewer than 10000 packets were seen) = 9.00 GHz"),
        "{line}"
    );
    // With advice on how to get a better basis.
    let way_out = "260 kpps would fit; to be judged by what packets cost here: start with that, send all that it \
                   takes for some seconds, then `ringroad set edge guarantee=1Mpps`, and it is remembered";
    assert!(line.ends_with(way_out), "{line}");
    let full = Core { reserved: 0.9, ..core(1) };
    let line = admit(&[full], &[], &asked).expect_err("no room").to_string();
    assert!(line.ends_with("at most 0.90 can be; no rate fits"), "{line}");
}

#[test]
fn a_core_that_is_not_there_holds_no_promise() {
    let line = admit(&[core(0)], &[], &promise("edge", 1.0, 1.0)).expect_err("no such core").to_string();
    assert_eq!(line, "CPU 1 is not there, so nothing can be promised on it");
}

#[test]
fn reservations_and_weights() {
    let set = |share, rest| Adjustment { router: "edge".to_owned(), cpu: 1, share, rest };
    let period = std::time::Duration::from_millis(200);
    assert_eq!(set(0.35, 0.65).runtime(period), std::time::Duration::from_millis(70));
    assert_eq!(set(1e-12, 1.0).runtime(period), std::time::Duration::from_micros(1));
    // 0.64 and 0.36 of a core: 1820 beside a weight of 1024.
    assert_eq!(set(0.64, 0.36).weight(1024), 1820);
    assert_eq!(set(0.64, 0.36).weight(0), 640);
    assert_eq!(set(1e-9, 1.0).weight(100), 1);
}
