use super::{row, vhost_user_row, wish};
use crate::results::{Sample, parse};

fn samples(unit: &str, medians: impl IntoIterator<Item = f64>) -> Vec<Sample> {
    let line = |median: f64| format!("RESULT name=x unit={unit} median={median} min=0 max=99 n=1 c2c_ns=100");
    medians.into_iter().filter_map(|median| parse(&line(median))).collect()
}

fn judged(unit: &str, new: f64, old: f64) -> (String, bool) {
    let wobble = |of: f64| (0..40).map(move |n| of * (1.0 + f64::from(n % 5) / 1e4));
    let (new, old) = (samples(unit, wobble(new)), samples(unit, wobble(old)));
    row("x", &new.iter().zip(&old).collect::<Vec<_>>()).unwrap()
}

#[test]
fn a_path_that_lost_more_than_a_fiftieth_is_refused() {
    let (text, well) = judged("mpps", 10.0, 10.0);
    assert!(well && text.contains("| 40 | 40 |") && text.ends_with("| yes |\n"), "{text}");
    let (text, well) = judged("mpps", 9.7, 10.0);
    assert!(!well && text.ends_with("| no |\n"), "{text}");
    // A faster result is accepted.
    assert!(judged("mpps", 12.0, 10.0).1);
}

#[test]
fn a_start_may_take_a_millisecond_longer() {
    assert!(judged("ms", 10.9, 10.0).1);
    let (text, well) = judged("ms", 11.2, 10.0);
    assert!(!well && text.contains("+1.20"), "{text}");
}

#[test]
fn an_interval_around_what_is_asked_is_open() {
    let spread = |of: f64| (0..40).map(move |n| of * (0.9 + f64::from(n) / 200.0));
    let (new, old) = (samples("mpps", spread(10.0)), samples("mpps", (0..40).map(|_| 10.0)));
    let (text, well) = row("x", &new.iter().zip(&old).collect::<Vec<_>>()).unwrap();
    assert!(well && text.ends_with("| open |\n"), "{text}");
}

#[test]
fn what_to_compare_with_has_to_be_said() {
    let words = |words: &[&str]| wish(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
    assert!(words(&["--pairs", "12"]).is_err());
    assert!(words(&["main", "forwards"]).is_err());
    let wish = words(&["main", "--pairs", "12", "boot"]).unwrap();
    assert_eq!((wish.other.as_str(), wish.pairs, wish.chosen), ("main", 12, vec!["boot".to_owned()]));
}

#[test]
fn the_scripts_ratio_is_the_row_of_vhost_user() {
    let said = |low: f64| {
        [
            "RESULT name=router_over_vhost_user_old_other_60 unit=mpps median=10.2 min=9 max=21 n=8 c2c_ns=333".to_owned(),
            "RESULT name=router_over_vhost_user_ringroad_beside_other_60 unit=mpps median=10.3 min=9 max=24 n=8".to_owned(),
            format!("RATIO router_over_vhost_user_other_60 median=0.97 ci95={low}..0.979 n=8"),
        ]
    };
    let (text, well) = vhost_user_row(&said(0.96)).unwrap();
    assert!(!well && text.contains("| 8 | 8 | 10.200 | 10.300 mpps | 0.97 | 0.96..0.979 |"), "{text}");
    assert!(vhost_user_row(&said(0.96)[..2]).is_none());
}
