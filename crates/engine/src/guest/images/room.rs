//! Makes room for a guest's console output: a console file has a maximum size.

use std::path::Path;
use std::{fs, io};

use vmm::linux::CONSOLE_ROOM;

/// Renames a console file that is more than half full to `PATH.1`, replacing an older one. Anything but a
/// regular file, and a symbolic link, is left alone.
///
/// # Errors
/// It cannot be renamed.
pub(super) fn make(path: &Path) -> io::Result<()> {
    let is_full = |file: fs::Metadata| file.is_file() && file.len() > CONSOLE_ROOM / 2;
    if !fs::symlink_metadata(path).is_ok_and(is_full) {
        return Ok(());
    }
    let mut before = path.as_os_str().to_owned();
    before.push(".1");
    fs::rename(path, before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_half_full_is_kept_beside_an_empty_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, before) = (folder.path().join("tux.log"), folder.path().join("tux.log.1"));
        make(&path).expect("there is none yet");
        for (octets, kept) in [(CONSOLE_ROOM / 2, false), (CONSOLE_ROOM / 2 + 1, true), (CONSOLE_ROOM, true)]
        {
            fs::write(&path, b"").expect("a file");
            let file = fs::File::options().write(true).open(&path).expect("a file");
            file.set_len(octets).expect("a sparse file");
            make(&path).expect("there is room");
            assert_eq!(path.exists(), !kept, "{octets}");
            assert!(!kept || fs::metadata(&before).expect("it is kept").len() == octets, "the newest one");
        }
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&before, &link).expect("a link");
        make(&link).expect("it stays");
        assert!(link.exists() && before.exists());
    }
}
