use super::*;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn targets_and_seconds_are_chosen() {
    let parsed = parse(&words(&["--seconds", "5", "rings", "pci"])).expect("known words");
    assert_eq!(parsed, (5, words(&["rings", "pci"])));
    assert_eq!(parse(&[]).expect("nothing is needed"), (60, Vec::new()));
    assert!(parse(&words(&["--seconds", "0"])).is_err());
    assert_eq!(chosen_targets(Vec::new()).expect("all").len(), targets().len());
    let error = chosen_targets(words(&["rings", "rungs"])).expect_err("no such target");
    assert!(error.to_string().starts_with("no fuzz target `rungs`; there are: "), "{error}");
}

#[test]
fn a_target_writes_to_a_folder_of_its_own_and_has_its_time_and_some_more() {
    let shown = step("rings", 7).expect("a folder").shown();
    let own = format!("{}/fuzz-corpus/rings ", target_dir().display());
    assert!(shown.starts_with(&format!("cargo +nightly fuzz run rings {own}")), "{shown}");
    assert!(shown.ends_with(" -- -max_total_time=7 -timeout=10 -verbosity=0"), "{shown}");
}

#[test]
fn what_a_target_has_found_now_is_told_with_how_to_reproduce_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (root, artifacts) = (folder.path(), folder.path().join("fuzz/artifacts/rings"));
    std::fs::create_dir_all(&artifacts).expect("a folder");
    let started = SystemTime::now();
    let write = |name: &str, moment: SystemTime| {
        let file = std::fs::File::create(artifacts.join(name)).expect("a file");
        file.set_modified(moment).expect("its time");
    };
    write("crash-old", started - Duration::from_secs(1));
    assert_eq!(how_to_reproduce(root, "rings", started), [""; 0]);
    write("crash-new", started);
    let told = ["reproduce: cargo +nightly fuzz run rings fuzz/artifacts/rings/crash-new"];
    assert_eq!(how_to_reproduce(root, "rings", started), told);
    assert_eq!(how_to_reproduce(root, "pci", started), [""; 0], "another target's");
}

#[test]
fn each_target_is_a_program_has_inputs_and_is_named_at_a_door() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).expect("a file of the tree");
    let (manifest, page) = (read("fuzz/Cargo.toml"), read("SECURITY.md"));
    let doors: Vec<_> = page.lines().filter(|line| line.contains("fuzz `")).collect();
    for target in targets() {
        let program = format!("[[bin]]\nname = \"{target}\"\npath = \"fuzz_targets/{target}.rs\"\n");
        assert!(manifest.contains(&program), "{target} is no program in fuzz/Cargo.toml");
        let inputs = std::fs::read_dir(root().join("fuzz/corpus").join(&target));
        assert!(inputs.is_ok_and(|mut inputs| inputs.next().is_some()), "{target} has no stored input");
        let word = format!("`{target}`");
        assert!(doors.iter().any(|door| door.contains(&word)), "SECURITY.md names {target} at no door");
    }
}
