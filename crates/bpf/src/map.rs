//! Maps: what a program and we both read and write.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

// Numbers of `linux/bpf.h`.
const CREATE: libc::c_long = 0;
const LOOK_UP: libc::c_long = 1;
const UPDATE: libc::c_long = 2;
const DELETE: libc::c_long = 3;

/// What a map is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Values by any key.
    Hash = 1,
    /// By a number, with a value for each CPU that there may ever be.
    ArrayOfEachCpu = 6,
    /// AF_XDP sockets by the number of a queue. They are put there by their descriptors.
    Sockets = 17,
}

/// A map, whose keys have 32 bits.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    /// Octets of what is under a key, as we see it.
    len: usize,
}

#[repr(C)]
struct Create {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct Element {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl Map {
    /// A map of so many values of so many octets each.
    ///
    /// # Errors
    /// No rights (CAP_BPF), no memory, or a kernel that knows no such maps.
    pub fn new(kind: Kind, value: u32, entries: u32) -> io::Result<Self> {
        let len = match kind {
            Kind::ArrayOfEachCpu => (value as usize).next_multiple_of(8) * possible_cpus()?,
            _ => value as usize,
        };
        let mut request = Create { kind: kind as u32, key: 4, value, entries, flags: 0 };
        // SAFETY: the request holds no pointer.
        let fd = unsafe { super::new_descriptor(CREATE, &mut request) }?;
        Ok(Self { fd, len })
    }

    /// Octets of what is under a key: a value, or the values of all CPUs, each rounded up to words of 64 bits.
    pub fn len_of_value(&self) -> usize {
        self.len
    }

    /// Reads what is under a key.
    ///
    /// # Errors
    /// Nothing is (ENOENT), or `words` are not as long as that is (EINVAL).
    pub fn get(&self, key: u32, words: &mut [u64]) -> io::Result<()> {
        self.check(size_of_val(words))?;
        let mut request = self.element(&key, words.as_mut_ptr() as u64);
        // SAFETY: key and place live during the call, and the place is as long as what the kernel writes (checked above).
        unsafe { super::bpf(LOOK_UP, &mut request) }.map(drop)
    }

    /// Puts something under a key, in place of what is there.
    ///
    /// # Errors
    /// The map is full, or `value` is not as long as its values are (EINVAL).
    pub fn put(&self, key: u32, value: &[u8]) -> io::Result<()> {
        self.check(value.len())?;
        let mut request = self.element(&key, value.as_ptr() as u64);
        // SAFETY: key and value live during the call, and the value is as long as what the kernel reads (checked above).
        unsafe { super::bpf(UPDATE, &mut request) }.map(drop)
    }

    /// Takes away what is under a key.
    ///
    /// # Errors
    /// Nothing is (ENOENT), or the map always has something there (EINVAL).
    pub fn remove(&self, key: u32) -> io::Result<()> {
        let mut request = self.element(&key, 0);
        // SAFETY: the key lives during the call.
        unsafe { super::bpf(DELETE, &mut request) }.map(drop)
    }

    fn check(&self, len: usize) -> io::Result<()> {
        if len == self.len { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    fn element(&self, key: &u32, value: u64) -> Element {
        let key = std::ptr::from_ref(key) as u64;
        Element { map: self.fd.as_raw_fd().cast_unsigned(), unused: 0, key, value, flags: 0 }
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// How many CPUs there may ever be. The kernel copies a value for each of them.
fn possible_cpus() -> io::Result<usize> {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible")?;
    of_ranges(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// `0-3` are four.
pub(super) fn of_ranges(text: &str) -> Option<usize> {
    let last = text.trim().rsplit([',', '-']).next()?.parse::<usize>().ok()?;
    Some(last + 1)
}
