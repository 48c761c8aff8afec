use super::*;

#[test]
fn a_driver_that_comes_up_owes_nothing() {
    let now = Instant::now();
    let mut pace = AccessRateLimit::new(now);
    (0..FREE).for_each(|_| pace.spend(now));
    assert_eq!(pace.take_debt(), None);
    pace.spend(now);
    assert_eq!(pace.take_debt(), Some(EVERY));
    assert_eq!(pace.take_debt(), None, "paid");
}

#[test]
fn who_goes_on_gets_a_hundred_a_second() {
    let start = Instant::now();
    let (mut pace, mut now, mut done) = (AccessRateLimit::new(start), start, 0);
    while now - start < Duration::from_secs(10) {
        pace.spend(now);
        now += Duration::from_micros(20) + pace.take_debt().unwrap_or_default();
        done += 1;
    }
    assert!((FREE..FREE + 1010).contains(&done), "{done}");
}

#[test]
fn an_access_with_many_costly_requests_earns_nothing_while_it_pays_for_them() {
    let now = Instant::now();
    let mut pace = AccessRateLimit::new(now);
    (0..FREE + 100).for_each(|_| pace.spend(now));
    let debt = pace.take_debt().expect("it owes");
    assert_eq!(debt, 100 * EVERY);
    let paid = now + debt;
    pace.spend(paid);
    assert_eq!(pace.take_debt(), Some(EVERY), "the time slept has earned tokens");
    // As if another vCPU accessed the device while that one sleeps.
    pace.spend(paid + EVERY / 2);
    assert_eq!(pace.take_debt(), Some(EVERY));
}

#[test]
fn what_was_spent_is_free_again_after_a_while_and_no_more() {
    let start = Instant::now();
    let mut pace = AccessRateLimit::new(start);
    (0..FREE).for_each(|_| pace.spend(start));
    let later = start + Duration::from_secs(3600);
    (0..FREE).for_each(|_| pace.spend(later));
    assert_eq!(pace.take_debt(), None);
    pace.spend(later);
    assert_eq!(pace.take_debt(), Some(EVERY));
}
