//! Type information of the running kernel: BTF (Documentation/bpf/btf.rst) from `/sys/kernel/btf/vmlinux`. Offsets of structure
//! members, and names of enumeration values, differ between kernels.
//!
//! ```text
//!   header | types: name, kind, size or type | members ...        | strings, each ends with a zero
//! ```

use std::fs;
use std::io;

const KERNEL: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
/// Octets of the header that are read here, and of the part that all types have in common.
const HEADER: usize = 24;
const TYPE: usize = 12;
/// Maximum depth of typedefs, qualifiers and nested structures.
const DEEPEST: usize = 16;

// Kinds of types.
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const RESTRICT: u32 = 11;
const TYPE_TAG: u32 = 18;

/// Type information of a kernel.
#[derive(Clone, Debug)]
pub struct Btf {
    octets: Vec<u8>,
    /// Offset of each type; type number N is at index N - 1.
    types: Vec<usize>,
    /// Begin and end of the string section.
    strings: (usize, usize),
}

/// The common part of a type.
#[derive(Clone, Copy, Debug)]
struct Head {
    name: u32,
    kind: u32,
    /// Number of members.
    count: usize,
    /// True if member offsets include a bit field width (`kind_flag`).
    has_widths: bool,
    /// Size, or the number of the type that it refers to.
    other: u32,
    /// Offset of its members.
    members: usize,
}

impl Btf {
    /// Reads the types of the running kernel.
    ///
    /// # Errors
    /// The kernel exports none (CONFIG_DEBUG_INFO_BTF), or they are malformed (InvalidData).
    pub fn of_kernel() -> io::Result<Self> {
        Self::read(fs::read(KERNEL)?)
    }

    /// Parses type information.
    ///
    /// # Errors
    /// InvalidData: it is malformed, or of another version.
    pub fn read(octets: Vec<u8>) -> io::Result<Self> {
        read(octets).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no BTF that can be read"))
    }

    /// Returns the names and values of an enumeration, in the order of its definition.
    pub fn values(&self, enumeration: &str) -> Option<Vec<(String, i32)>> {
        let head = self.find(enumeration, &[ENUM])?;
        let value = |n: usize| {
            let at = head.members + 8 * n;
            Some((
                self.string(word(&self.octets, at)?)?.to_owned(),
                word(&self.octets, at + 4)?.cast_signed(),
            ))
        };
        (0..head.count).map(value).collect()
    }

    /// Returns the offset of a member, in octets from the beginning of a structure: `["ns", "inum"]` is the member `inum` of the
    /// member `ns`. Members of anonymous structures count as members of the enclosing structure.
    pub fn offset(&self, structure: &str, path: &[&str]) -> Option<u32> {
        let mut head = self.find(structure, &[STRUCT, UNION])?;
        let mut bits = 0_u32;
        for (step, name) in path.iter().enumerate() {
            let (offset, of) = self.member(&head, name, DEEPEST)?;
            bits = bits.checked_add(offset)?;
            if step + 1 < path.len() {
                head = self.resolve(of)?;
            }
        }
        bits.is_multiple_of(8).then_some(bits / 8)
    }

    /// Finds a member by name: its offset in bits, and its type.
    fn member(&self, head: &Head, name: &str, depth: usize) -> Option<(u32, u32)> {
        let deeper = depth.checked_sub(1)?;
        (0..head.count).find_map(|n| {
            let at = head.members + 12 * n;
            let called = self.string(word(&self.octets, at)?)?;
            let of = word(&self.octets, at + 4)?;
            let offset = word(&self.octets, at + 8)?;
            let offset = if head.has_widths { offset & 0xff_ffff } else { offset };
            if called == name {
                return Some((offset, of));
            }
            if !called.is_empty() {
                return None;
            }
            let inner = self.resolve(of).filter(|inner| matches!(inner.kind, STRUCT | UNION))?;
            let (further, of) = self.member(&inner, name, deeper)?;
            Some((offset.checked_add(further)?, of))
        })
    }

    /// Resolves a type number, skipping typedefs and qualifiers.
    fn resolve(&self, number: u32) -> Option<Head> {
        let mut head = self.head(number)?;
        for _ in 0..DEEPEST {
            match head.kind {
                TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG => head = self.head(head.other)?,
                _ => return Some(head),
            }
        }
        None
    }

    fn head(&self, number: u32) -> Option<Head> {
        let at = *self.types.get((number as usize).checked_sub(1)?)?;
        head(&self.octets, at)
    }

    fn find(&self, name: &str, kinds: &[u32]) -> Option<Head> {
        let is = |head: &Head| kinds.contains(&head.kind) && self.string(head.name) == Some(name);
        self.types.iter().filter_map(|at| head(&self.octets, *at)).find(is)
    }

    fn string(&self, offset: u32) -> Option<&str> {
        let (begin, end) = self.strings;
        let all = self.octets.get(begin..end)?.get(offset as usize..)?;
        std::str::from_utf8(all.split(|octet| *octet == 0).next()?).ok()
    }
}

fn read(octets: Vec<u8>) -> Option<Btf> {
    let magic = u16::from_ne_bytes(*octets.first_chunk()?);
    let header = word(&octets, 4)? as usize;
    if magic != MAGIC || octets.get(2) != Some(&1) || header < HEADER {
        return None;
    }
    let part = |at: usize| {
        let begin = header.checked_add(word(&octets, at)? as usize)?;
        let end = begin.checked_add(word(&octets, at + 4)? as usize)?;
        (end <= octets.len()).then_some((begin, end))
    };
    let ((mut at, end), strings) = (part(8)?, part(16)?);
    let mut types = Vec::new();
    while at < end {
        types.push(at);
        at = after(&head(&octets, at)?)?;
    }
    (at == end).then_some(())?;
    Some(Btf { octets, types, strings })
}

fn head(octets: &[u8], at: usize) -> Option<Head> {
    let info = word(octets, at + 4)?;
    Some(Head {
        name: word(octets, at)?,
        kind: (info >> 24) & 0x1f,
        count: (info & 0xffff) as usize,
        has_widths: info >> 31 == 1,
        other: word(octets, at + 8)?,
        members: at + TYPE,
    })
}

/// Offset of the next type.
fn after(head: &Head) -> Option<usize> {
    let members = match head.kind {
        // Integer, variable, declaration tag: one word.
        1 | 14 | 17 => 4,
        // Array.
        3 => 12,
        // Structure, union, data section, 64-bit enumeration.
        STRUCT | UNION | 15 | 19 => 12 * head.count,
        // Enumeration, function prototype.
        ENUM | 13 => 8 * head.count,
        // Pointer, forward declaration, typedef, qualifier, function, floating point type, type tag.
        2 | 7..=12 | 16 | TYPE_TAG => 0,
        _ => return None,
    };
    Some(head.members + members)
}

fn word(octets: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*octets.get(at..)?.first_chunk()?))
}
