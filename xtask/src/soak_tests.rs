use super::*;

#[test]
fn a_group_is_watched_for_an_hour_or_as_long_as_the_caller_says() {
    let group = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        parse(&words).map(|options| options.group)
    };
    assert_eq!(group(&[]).unwrap(), None);
    assert_eq!(group(&["--group"]).unwrap(), Some(3600));
    assert_eq!(group(&["--group", "--seconds", "60"]).unwrap(), Some(60));
    assert_eq!(group(&["--seconds", "60", "--group"]).unwrap(), Some(60));
    assert!(group(&["--group", "--seconds"]).is_err() && group(&["--hours"]).is_err());
}
