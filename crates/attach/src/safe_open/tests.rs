use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

use rustix::fs::mknodat;
use tempfile::TempDir;

use super::*;

const NOBODY: u32 = 65534;

/// A shared folder like `/tmp`, and a folder of our own beside it with a file in it.
struct Place {
    _home: TempDir,
    shared: PathBuf,
    own: PathBuf,
    file: PathBuf,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let [shared, own] = ["shared", "own"].map(|name| home.path().join(name));
        for (folder, mode) in [(&shared, 0o1777), (&own, 0o755)] {
            fs::create_dir(folder).expect("a folder");
            fs::set_permissions(folder, Permissions::from_mode(mode)).expect("its mode");
        }
        let file = own.join("file");
        fs::write(&file, "precious").expect("a file");
        Self { _home: home, shared, own, file }
    }

    /// Writes to a path, and checks the result; returns the error if it is refused.
    fn write(&self, path: &Path) -> Result<(), String> {
        let mut file = create(path).map_err(|error| error.to_string())?;
        file.write_all(b"frames").map_err(|error| error.to_string())
    }

    fn is_untouched(&self) -> bool {
        fs::read(&self.file).expect("it is there") == b"precious"
    }
}

fn is_root() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        println!("SKIPPED: only root can give files to others");
    }
    is_root
}

#[test]
fn what_the_owner_names_is_written_also_through_his_own_links() {
    let place = Place::new();
    let text = |path: &Path| fs::read_to_string(path).expect("a file");
    place.write(&place.file).expect("written");
    assert_eq!(text(&place.file), "frames", "what was there is gone");
    for folder in [&place.shared, &place.own] {
        place.write(&folder.join("new")).expect("written");
        assert_eq!(text(&folder.join("new")), "frames");
        let (link, to_folder, dangling) =
            (folder.join("link"), folder.join("folder"), folder.join("dangling"));
        symlink("../own/file", &link).expect("a link");
        symlink(&place.own, &to_folder).expect("a link");
        symlink(place.own.join("later"), &dangling).expect("a link");
        for path in [link, to_folder.join("../own/./folder-file"), dangling] {
            place.write(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
    assert_eq!(text(&place.own.join("later")), "frames");
    let mut more = append(&place.file).expect("opened");
    more.write_all(b" and more").expect("written");
    assert_eq!(text(&place.file), "frames and more");
    symlink("loop", place.own.join("loop")).expect("a link");
    for path in ["loop", "file/x", "none/x", ".", ".."] {
        assert!(place.write(&place.own.join(path)).is_err(), "{path}");
    }
    assert!(place.write(Path::new("")).is_err());
}

#[test]
fn a_link_of_somebody_else_is_not_followed() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let (link, dangling, to_folder) =
        (place.shared.join("a.pcap"), place.shared.join("b.pcap"), place.shared.join("caps"));
    for (target, link) in
        [(&place.file, &link), (&place.own.join("made"), &dangling), (&place.own, &to_folder)]
    {
        symlink(target, link).expect("a link");
        lchown(link, Some(NOBODY), Some(NOBODY)).expect("somebody else's");
    }
    // Nor by a link of our own to that link.
    let chain = place.shared.join("mine");
    symlink(&link, &chain).expect("a link");
    for path in [link, dangling, to_folder.join("file"), chain] {
        let error = place.write(&path).expect_err("refused");
        assert!(error.starts_with("a link of user 65534 is on the way"), "{}: {error}", path.display());
    }
    assert!(place.is_untouched() && !place.own.join("made").exists());
    // In a folder of the other user links to folders are followed, and links to files are not.
    let his = place.own.join("his");
    fs::create_dir(&his).expect("a folder");
    symlink(&his, his.join("folder")).expect("a link");
    symlink(&place.file, his.join("file")).expect("a link");
    for path in [his.clone(), his.join("folder"), his.join("file")] {
        lchown(path, Some(NOBODY), Some(NOBODY)).expect("his");
    }
    place.write(&his.join("folder/new")).expect("written");
    assert!(place.write(&his.join("file")).is_err() && place.is_untouched());
}

#[test]
fn a_file_of_somebody_else_among_others_is_left_alone() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let (his, linked, pipe) =
        (place.shared.join("his"), place.shared.join("linked"), place.shared.join("pipe"));
    fs::write(&his, "trap").expect("a file");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("a pipe");
    for path in [&his, &pipe] {
        chown(path, Some(NOBODY), Some(NOBODY)).expect("his");
        let error = place.write(path).expect_err("refused");
        assert!(error.contains("and is user 65534's: remove it"), "{error}");
    }
    assert_eq!(fs::read(&his).expect("a file"), b"trap");
    fs::hard_link(&place.file, &linked).expect("a second name");
    let error = place.write(&linked).expect_err("refused");
    assert!(error.contains("has another name") && place.is_untouched(), "{error}");
    // In a folder where nobody else can create files, the owner has put it there.
    fs::rename(&his, place.own.join("his")).expect("moved");
    place.write(&place.own.join("his")).expect("written");
    place.write(&place.file).expect("written, whatever names it has");
}

#[test]
fn what_a_process_has_open_is_named_as_well() {
    let place = Place::new();
    let file = File::options().write(true).open(&place.file).expect("a file");
    let (mut reader, pipe) = io::pipe().expect("a pipe");
    let link = place.own.join("stdout");
    for fd in [file.as_raw_fd(), pipe.as_raw_fd()] {
        let _ = fs::remove_file(&link);
        symlink(format!("/proc/self/fd/{fd}"), &link).expect("a link, as /dev/stdout is one");
        place.write(&link).unwrap_or_else(|error| panic!("{error}"));
    }
    let mut heard = [0; 6];
    reader.read_exact(&mut heard).expect("read");
    assert_eq!((&heard, fs::read(&place.file).expect("a file").as_slice()), (b"frames", &b"frames"[..]));
}

#[test]
fn nobody_is_waited_for_who_would_read_a_pipe() {
    let place = Place::new();
    let pipe = place.own.join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a pipe");
    assert!(place.write(&pipe).is_err());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let mut reader = File::from(open(&pipe, flags, Mode::empty()).expect("a reader"));
    place.write(&pipe).expect("written");
    create_patiently(&pipe).expect("a reader is there").write_all(b"!").expect("written");
    let mut heard = [0; 7];
    reader.read_exact(&mut heard).expect("read");
    assert_eq!(&heard, b"frames!");
}
