use super::*;
use crate::step::LAB;

/// Tally of a comparison in which the build for each target is a given program of this host.
fn counted(programs: [&str; 2]) -> Tally {
    let folder = tempfile::tempdir().expect("a folder");
    let targets = ["a", "b"].map(|name| folder.path().join(name));
    let build = |target: &Path| {
        let program = programs[usize::from(target.ends_with("b"))];
        let place = target.join("ringroad");
        fs::create_dir_all(target)?;
        fs::copy(program, &place)?;
        fs::copy(program, target.join(LAB.1))?;
        Ok(place)
    };
    let mut tally = Tally::default();
    count(&targets, None, build, &mut tally).expect("a commit");
    tally
}

mod all {
    use super::*;

    #[test]
    fn packages_of_two_builds_are_compared_by_their_octets() {
        if let Some(why) = missing() {
            println!("SKIPPED: {why}");
            return;
        }
        assert_eq!(counted(["/bin/true", "/bin/true"]).to_string(), "1 passed, 0 failed, 0 skipped");
        assert_eq!(counted(["/bin/true", "/bin/false"]).to_string(), "0 passed, 1 failed, 0 skipped");
        assert_eq!(counted(["/bin/true", "/does/not/exist"]).to_string(), "0 passed, 1 failed, 0 skipped");
    }
}

#[test]
fn without_the_tools_it_is_skipped_with_the_reason() {
    let mut tally = Tally::default();
    let targets = ["a", "b"].map(PathBuf::from);
    let build = |_: &Path| unreachable!("nothing is built");
    count(&targets, Some("`strip` is not installed".to_owned()), build, &mut tally).expect("nothing is run");
    assert_eq!(tally.to_string(), "0 passed, 0 failed, 1 skipped");
    assert!(tally.skipped[0].contains("strip"), "{:?}", tally.skipped);
}

#[test]
fn a_difference_is_told_by_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
    let differ = |of_a: &str, of_b: &str| {
        fs::write(&a, of_a).expect("written");
        fs::write(&b, of_b).expect("written");
        difference(&a, &b).expect("read")
    };
    assert_eq!(differ("same", "same"), None);
    assert!(differ("some", "same").expect("a difference").ends_with("differ from octet 1 on"));
    assert!(differ("same", "same, longer").expect("a difference").ends_with("differ from octet 4 on"));
}
