//! A kernel that does nothing but write to its console.

/// Load address and entry point: the first MiB belongs to the firmware.
const ENTRY: u64 = 0x10_0000;
/// Octets of the headers, which precede the code.
const FILE_HEADER: u16 = 64;
const PROGRAM_HEADER: u16 = 56;

/// Code that writes all octet values in turn, as fast as the serial port accepts them:
///
/// ```text
///     mov edx, 0x3f8
///     xor eax, eax
///  1: inc eax
///     out dx, al
///     jmp 1b
/// ```
const TALK: [u8; 12] = [0xba, 0xf8, 0x03, 0, 0, 0x31, 0xc0, 0xff, 0xc0, 0xee, 0xeb, 0xfb];

/// Returns a kernel that writes to its console endlessly, as an ELF file for x86-64.
pub fn talking_kernel() -> Vec<u8> {
    let code = u64::from(FILE_HEADER + PROGRAM_HEADER);
    let octets = TALK.len() as u64;
    let halves = |halves: &[u16]| halves.iter().flat_map(|half| half.to_le_bytes()).collect::<Vec<u8>>();
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let longs = |longs: &[u64]| longs.iter().flat_map(|long| long.to_le_bytes()).collect::<Vec<u8>>();
    [
        // 64 bits, little-endian, version 1.
        b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec(),
        // An executable, for x86-64, version 1.
        halves(&[2, 62]),
        words(&[1]),
        // Entry, program headers, no section headers, no flags.
        longs(&[ENTRY, FILE_HEADER.into(), 0]),
        words(&[0]),
        // This header, and one program header.
        halves(&[FILE_HEADER, PROGRAM_HEADER, 1, 0, 0, 0]),
        // Loadable segment; readable and executable.
        words(&[1, 5]),
        // File offset, addresses, lengths in file and memory, alignment.
        longs(&[code, ENTRY, ENTRY, octets, octets, 1]),
        TALK.to_vec(),
    ]
    .concat()
}
