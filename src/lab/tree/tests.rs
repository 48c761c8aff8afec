use std::fs::{Permissions, create_dir, set_permissions, write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::Tree;

fn of(program: &str) -> Option<(String, String)> {
    let tree = Tree::of(Path::new(program))?;
    assert!(Path::new(program).starts_with(&tree.folder));
    Some((tree.root.display().to_string(), tree.profile))
}

#[test]
fn a_program_of_cargos_lies_in_a_folder_of_its_profile() {
    let found = |root: &str, profile: &str| Some((root.to_owned(), profile.to_owned()));
    assert_eq!(of("/src/ring/target/release/ringroad"), found("/src/ring", "release"));
    assert_eq!(of("/src/ring/target/quick/ringroad"), found("/src/ring", "quick"));
    assert_eq!(of("/src/ring/target/debug/ringroad"), found("/src/ring", "dev"));
    for elsewhere in [
        "/usr/bin/ringroad",
        "/target/ringroad",
        "/src/ring/target/ringroad",
        "/src/ring/target/compare/aeaba63/ringroad",
        "/src/ring/target/debug/deps/ringroad-0123456789abcdef",
        "/src/ring/my-target/release/ringroad",
        "ringroad",
        "/",
    ] {
        assert_eq!(of(elsewhere), None, "{elsewhere}");
    }
}

#[test]
fn a_tree_is_ours_and_not_open_to_everybody() {
    let root = tempfile::tempdir().unwrap();
    let tree = Tree::of(&root.path().join("target/release/ringroad")).unwrap();
    assert!(!tree.is_there());
    write(root.path().join("Cargo.toml"), "").unwrap();
    assert!(!tree.is_there(), "the tree of another program");
    create_dir(root.path().join("lab")).unwrap();
    write(root.path().join("lab/Cargo.toml"), "").unwrap();
    assert!(tree.is_there());
    set_permissions(root.path(), Permissions::from_mode(0o1777)).unwrap();
    assert!(!tree.is_there(), "anybody may have laid it there");
}
