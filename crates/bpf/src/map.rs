//! Maps: memory that both a program and user space read and write.

use std::fs;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

// Command numbers of `linux/bpf.h`.
const CREATE: libc::c_long = 0;
const LOOK_UP: libc::c_long = 1;
const UPDATE: libc::c_long = 2;
const DELETE: libc::c_long = 3;

/// Kind of map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Hash table with arbitrary keys.
    Hash = 1,
    /// Array with indices from 0.
    Array = 2,
    /// Array with a value for each possible CPU.
    ArrayOfEachCpu = 6,
    /// AF_XDP sockets by queue number, inserted by their descriptors.
    Sockets = 17,
}

/// Type of a map's keys: 32-bit or 64-bit numbers.
pub trait Key: Copy + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

impl Key for u32 {}
impl Key for u64 {}

/// A map with 32-bit keys ([`Map::new`]) or 64-bit keys ([`Map::with_u64_keys`]).
#[derive(Debug)]
pub struct Map<K = u32> {
    fd: OwnedFd,
    /// Octets of an entry as user space sees it.
    len: usize,
    key: PhantomData<K>,
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
    /// Creates a map of `entries` values of `value` octets each.
    ///
    /// # Errors
    /// The process lacks CAP_BPF, memory is exhausted, or the kernel does not know such maps.
    pub fn new(kind: Kind, value: u32, entries: u32) -> io::Result<Self> {
        Self::make(kind, value, entries)
    }
}

impl Map<u64> {
    /// Creates a map with 64-bit keys: a [`Kind::Hash`].
    ///
    /// # Errors
    /// See [`Map::new`]. Also if the kind has 32-bit indices as keys.
    pub fn with_u64_keys(kind: Kind, value: u32, entries: u32) -> io::Result<Self> {
        Self::make(kind, value, entries)
    }
}

impl<K: Key> Map<K> {
    fn make(kind: Kind, value: u32, entries: u32) -> io::Result<Self> {
        let len = match kind {
            Kind::ArrayOfEachCpu => (value as usize).next_multiple_of(8) * possible_cpus()?,
            _ => value as usize,
        };
        let key = size_of::<K>() as u32;
        let mut request = Create { kind: kind as u32, key, value, entries, flags: 0 };
        // SAFETY: the request contains no pointer.
        let fd = unsafe { super::new_descriptor(CREATE, &mut request) }?;
        Ok(Self { fd, len, key: PhantomData })
    }

    /// Octets of an entry: a value, or the values of all CPUs, each rounded up to 64-bit words.
    pub fn len_of_value(&self) -> usize {
        self.len
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// There is no entry (ENOENT), or `words` does not have its length (EINVAL).
    pub fn get(&self, key: K, words: &mut [u64]) -> io::Result<()> {
        self.check(size_of_val(words))?;
        let mut request = self.element(&key, words.as_mut_ptr() as u64);
        // SAFETY: key and buffer live during the call, and the buffer is as long as what the kernel writes
        // (checked above).
        unsafe { super::bpf(LOOK_UP, &mut request) }.map(drop)
    }

    /// Inserts or replaces an entry.
    ///
    /// # Errors
    /// The map is full, or `value` does not have the right length (EINVAL).
    pub fn put(&self, key: K, value: &[u8]) -> io::Result<()> {
        self.check(value.len())?;
        let mut request = self.element(&key, value.as_ptr() as u64);
        // SAFETY: key and value live during the call, and the value is as long as what the kernel reads
        // (checked above).
        unsafe { super::bpf(UPDATE, &mut request) }.map(drop)
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// There is no entry (ENOENT), or entries of this kind of map cannot be removed (EINVAL).
    pub fn remove(&self, key: K) -> io::Result<()> {
        let mut request = self.element(&key, 0);
        // SAFETY: the key lives during the call.
        unsafe { super::bpf(DELETE, &mut request) }.map(drop)
    }

    fn check(&self, len: usize) -> io::Result<()> {
        if len == self.len { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    /// Builds a request about a key. Its length is right, because `K` is the type of the map's keys.
    fn element(&self, key: &K, value: u64) -> Element {
        let key = std::ptr::from_ref(key) as u64;
        Element { map: self.fd.as_raw_fd().cast_unsigned(), unused: 0, key, value, flags: 0 }
    }
}

impl<K> AsFd for Map<K> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Number of possible CPUs; the kernel copies a value for each of them.
fn possible_cpus() -> io::Result<usize> {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible")?;
    of_ranges(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Number of CPUs in a list of ranges: `0-3` yields 4.
pub(super) fn of_ranges(text: &str) -> Option<usize> {
    let last = text.trim().rsplit([',', '-']).next()?.parse::<usize>().ok()?;
    Some(last + 1)
}
