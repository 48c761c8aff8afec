//! Configuration of FRR as a file or folder of the host.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::Content;

/// Most octets of a file: what [`Content::read`] accepts, and one more, which shows that there are too many.
const MOST: u64 = (16 << 20) + 1;
/// File of a folder.
const FILE: &str = "frr.conf";

/// Configuration that was read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// What it needs.
    pub content: Content,
    /// What it says.
    pub text: String,
}

/// Configuration that cannot be used, in one line that names the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(String);

impl Configuration {
    /// Reads a file, or `frr.conf` of a folder.
    ///
    /// # Errors
    /// It cannot be read, is not UTF-8, or a line of it cannot work here.
    pub fn load(path: &Path) -> Result<Self, Unusable> {
        let file = file_of(path);
        let text = read(&file).map_err(|why| Unusable(format!("cannot read {}: {why}", file.display())))?;
        match Content::read(&text) {
            Ok(content) => Ok(Self { content, text }),
            Err(fault) => Err(Unusable(format!("{}: {fault}", file.display()))),
        }
    }
}

fn file_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(FILE) } else { path.to_owned() }
}

/// Reads a regular file: opening another one might wait for its writer.
fn read(path: &Path) -> Result<String, String> {
    let facts = path.metadata().map_err(|error| error.to_string())?;
    if !facts.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let mut octets = Vec::new();
    let opened = File::open(path).map_err(|error| error.to_string())?;
    opened.take(MOST).read_to_end(&mut octets).map_err(|error| error.to_string())?;
    String::from_utf8(octets).map_err(|_| "it is not UTF-8; save it as UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_or_a_folder_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(FILE);
        fs::write(&file, "router ospf\n").expect("written");
        let read = Configuration::load(&file).expect("a good file");
        assert_eq!(read.text, "router ospf\n");
        assert_eq!(Configuration::load(folder.path()), Ok(read));
    }

    #[test]
    fn what_cannot_be_used_is_told_with_its_file_in_one_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let told = |path: &Path| Configuration::load(path).expect_err("it cannot be used").to_string();
        let missing = told(&folder.path().join("none.conf"));
        assert!(missing.starts_with("cannot read ") && missing.contains("none.conf: "), "{missing}");
        let file = folder.path().join("bad.conf");
        fs::write(&file, "hostname a\nmpls ldp\n").expect("written");
        let bad = told(&file);
        assert!(bad.contains("bad.conf: line 2: `mpls ldp`") && !bad.contains('\n'), "{bad}");
        fs::write(&file, [0xff]).expect("written");
        assert!(told(&file).ends_with("it is not UTF-8; save it as UTF-8"));
        assert!(told(Path::new("/dev/null")).ends_with("it is no regular file"));
    }
}
