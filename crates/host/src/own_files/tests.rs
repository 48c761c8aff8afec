use std::fs::{Permissions, copy, remove_file, set_permissions, write};
use std::os::unix::fs::{PermissionsExt, symlink};

use super::{Writers, beside, is_closed};

const DEVELOPER: u32 = 1000;
const STRANGER: u32 = 1001;

fn of(owner: u32, group: Option<u32>, others: bool) -> Writers {
    Writers { owner, group, others }
}

#[test]
fn whoever_may_write_it_may_write_the_program_as_well() {
    let (of_root, of_one) = (of(0, None, false), of(DEVELOPER, None, false));
    let of_a_group = of(DEVELOPER, Some(DEVELOPER), false);
    for (file, own, is_trusted) in [
        (of_root, of_root, true),
        (of_one, of_one, true),
        // Rebuilt by root.
        (of_root, of_one, true),
        (of_one, of_root, false),
        (of(STRANGER, None, false), of_one, false),
        (of_a_group, of_a_group, true),
        (of_a_group, of_one, false),
        (of(0, Some(DEVELOPER), false), of_root, false),
        (of(DEVELOPER, Some(STRANGER), false), of_a_group, false),
        (of(0, None, true), of_root, false),
        (of(0, None, true), of(0, None, true), false),
    ] {
        assert_eq!(file.are_among(own), is_trusted, "{file:?}, {own:?}");
    }
}

#[test]
fn a_program_beside_is_a_file_that_nobody_else_may_write() {
    let own = std::env::current_exe().unwrap();
    let name = format!("beside-{}", std::process::id());
    let path = own.with_file_name(&name);
    assert_eq!(beside(&name).unwrap(), None);
    copy(&own, &path).unwrap();
    let found = beside(&name);
    set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
    let writable = beside(&name);
    remove_file(&path).unwrap();
    symlink(&own, &path).unwrap();
    let link = beside(&name);
    remove_file(&path).unwrap();
    assert_eq!(found.unwrap(), Some(path));
    for refused in [writable, link] {
        let line = refused.unwrap_err().to_string();
        assert!(line.contains(&name) && line.contains("is not started") && !line.contains('\n'), "{line}");
    }
}

#[test]
fn a_folder_is_closed_unless_everybody_may_make_files_in_it() {
    let folder = tempfile::tempdir().unwrap();
    assert!(is_closed(folder.path()));
    set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
    assert!(!is_closed(folder.path()));
    let file = folder.path().join("file");
    write(&file, "").unwrap();
    assert!(!is_closed(&file) && !is_closed(&folder.path().join("nothing")));
}
