//! Kernel parameters (sysctl(8)) as the calling thread sees them: those below `net` belong to its network namespace.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;

const FOLDER: &str = "/proc/sys";

/// Reads a sysctl, such as `net/ipv4/ip_forward`. Trailing whitespace is removed. `None`: there is no such sysctl.
///
/// # Errors
/// The key is not a valid path, or the sysctl cannot be read.
pub fn sysctl(key: &str) -> Result<Option<String>, Error> {
    let path = path(key)?;
    match fs::read_to_string(&path) {
        Ok(value) => Ok(Some(value.trim_end().to_owned())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::system(format!("reading {}", path.display()), e)),
    }
}

/// Sets a sysctl.
///
/// # Errors
/// There is no such sysctl, it rejects the value (EINVAL), or it cannot be changed.
pub fn set_sysctl(key: &str, value: &str) -> Result<(), Error> {
    let path = path(key)?;
    // The file is never created: if there is none, ENOENT is the error to report.
    let mut file = fs::OpenOptions::new().write(true).open(&path).map_err(|e| refusal(&path, value, e))?;
    io::Write::write_all(&mut file, value.as_bytes()).map_err(|e| refusal(&path, value, e))
}

fn refusal(path: &Path, value: &str, error: io::Error) -> Error {
    Error::system(format!("writing `{value}` to {}", path.display()), error)
}

/// Path of a key in /proc/sys. Keys that could leave that directory (`..`, empty components) are rejected.
fn path(key: &str) -> Result<PathBuf, Error> {
    if key.is_empty() || key.split('/').any(|part| matches!(part, "" | "." | "..") || part.contains('\0')) {
        return Err(Error::Key { key: key.to_owned() });
    }
    Ok(Path::new(FOLDER).join(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_path_below_the_folder() {
        assert_eq!(path("net/ipv4/ip_forward").expect("a key"), Path::new("/proc/sys/net/ipv4/ip_forward"));
        // Interface names may contain dots.
        assert!(path("net/ipv4/conf/eth0.100/rp_filter").is_ok());
        for wrong in ["", "/etc/passwd", "net/../../etc/passwd", "net//ipv4", "net/", ".", "a\0b"] {
            let refused = path(wrong).expect_err(wrong).to_string();
            assert!(refused.contains("net/ipv4/ip_forward"), "{refused}");
        }
    }
}
