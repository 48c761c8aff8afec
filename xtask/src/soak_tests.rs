use super::*;

#[test]
fn a_group_is_watched_for_an_hour_or_as_long_as_the_caller_says() {
    let group = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        parse(&words).map(|options| (options.group, options.kind))
    };
    assert_eq!(group(&[]).unwrap(), (None, Kind::Parallel));
    assert_eq!(group(&["--group"]).unwrap(), (Some(3600), Kind::Parallel));
    assert_eq!(group(&["--group", "--seconds", "60"]).unwrap(), (Some(60), Kind::Parallel));
    assert_eq!(group(&["--seconds", "60", "--group"]).unwrap(), (Some(60), Kind::Parallel));
    assert_eq!(group(&["--group", "--multistage"]).unwrap(), (Some(3600), Kind::Multistage));
    assert_eq!(group(&["--multistage", "--seconds", "60"]).unwrap(), (Some(60), Kind::Multistage));
    assert!(group(&["--group", "--seconds"]).is_err() && group(&["--hours"]).is_err());
}
