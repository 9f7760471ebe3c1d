//! Calls that a specialised program never makes.
//!
//! A function without a caller is not loaded. Kernels before 6.8 verify every function that is, and
//! keep its code (since then only those that are called: commit 2afae08c9dcb).

use std::collections::BTreeSet;

use anyhow::Context;
use object::{
    File, Object, ObjectSection, ObjectSymbol, Section, SectionKind, SymbolIndex, SymbolKind,
};

/// An instruction: its code, registers, offset, and immediate number.
type Instruction = [u8; 8];

/// `r0 = 0`.
const NOTHING: Instruction = [0xb7, 0, 0, 0, 0, 0, 0, 0];

/// Removes the calls from `object`, the specialised one of `file`.
///
/// # Errors
///
/// When the object cannot be read, which a test rules out.
pub fn remove(object: &mut [u8], file: &File<'_>) -> anyhow::Result<()> {
    let mut symbols = file.symbols();
    let of_file = symbols.find(|symbol| symbol.kind() == SymbolKind::File);
    let of_file = of_file.context("the BPF object has no symbol of its file")?;
    for section in file.sections().filter(|it| it.kind() == SectionKind::Text) {
        let functions = file.symbols().filter(|symbol| {
            symbol.section_index() == Some(section.index()) && symbol.kind() == SymbolKind::Text
        });
        let starts = functions.map(|function| function.address() / 8);
        let starts: Vec<usize> = starts.map(usize::try_from).collect::<Result<_, _>>()?;
        let (instructions, _) = bytes_of(object, &section)?.as_chunks_mut();
        let removed = remove_from(instructions, starts);
        let relocations = file.section_by_name(&[".rel", section.name()?].concat());
        if let Some(relocations) = relocations {
            let (relocations, _) = bytes_of(object, &relocations)?.as_chunks_mut();
            leave_unrelocated(relocations, &removed, of_file.index())?;
        }
    }
    Ok(())
}

/// The bytes of a section in an object of the same layout.
pub fn bytes_of<'a>(
    object: &'a mut [u8],
    section: &Section<'_, '_>,
) -> anyhow::Result<&'a mut [u8]> {
    let (start, bytes) = section.file_range().unwrap_or_default();
    let range = usize::try_from(start)?..usize::try_from(start.saturating_add(bytes))?;
    object.get_mut(range).context("a section ends too late")
}

/// Removes the calls that no path from the `starts` of functions reaches, and returns where they
/// were.
fn remove_from(instructions: &mut [Instruction], starts: Vec<usize>) -> BTreeSet<usize> {
    const CALL_OF_FUNCTION: [u8; 2] = [0x85, 0x10];
    let mut live = vec![false; instructions.len()];
    let mut reached = starts;
    while let Some(at) = reached.pop() {
        if let (Some(live @ false), Some(instruction)) = (live.get_mut(at), instructions.get(at)) {
            *live = true;
            reached.extend(successors(at, *instruction).into_iter().flatten());
        }
    }
    let is_dead_call = |(instruction, live): &(&mut Instruction, bool)| {
        !live && instruction.starts_with(&CALL_OF_FUNCTION)
    };
    let pairs = instructions.iter_mut().zip(live);
    let dead_calls = pairs.enumerate().filter(|(_, pair)| is_dead_call(pair));
    dead_calls
        .map(|(at, (instruction, _))| {
            *instruction = NOTHING;
            at
        })
        .collect()
}

/// The instructions that can follow one. The branch of a feature goes one way.
fn successors(at: usize, instruction: Instruction) -> [Option<usize>; 2] {
    let [code, _, low, high, immediate @ ..] = instruction;
    let next = at.wrapping_add(1);
    let by = |offset: i32| next.checked_add_signed(offset.try_into().ok()?);
    let target = by(i16::from_le_bytes([low, high]).into());
    match (code, i32::from_le_bytes(immediate)) {
        // A number of 64 bits takes two.
        (0x18, _) => [Some(next.wrapping_add(1)), None],
        // `goto`, and `if r >= 0`.
        (0x05, _) | (0x35, 0) => [target, None],
        (0x06, offset) => [by(offset), None],
        // `exit`.
        (0x95, _) => [None, None],
        // A call, and `if r & 0`.
        (0x85, _) | (0x45, 0) => [Some(next), None],
        // Other jumps, of 64 and of 32 bits.
        _ if matches!(code & 7, 5 | 6) => [Some(next), target],
        _ => [Some(next), None],
    }
}

/// Gives the relocations of instructions that were removed another symbol, for which nothing is
/// done: a relocation is an offset, a type, and the index of a symbol.
fn leave_unrelocated(
    relocations: &mut [[u8; 16]],
    removed: &BTreeSet<usize>,
    symbol: SymbolIndex,
) -> anyhow::Result<()> {
    let symbol = u32::try_from(symbol.0)?.to_le_bytes();
    for relocation in relocations {
        let offset = relocation.first_chunk().copied().unwrap_or_default();
        let at = usize::try_from(u64::from_le_bytes(offset) / 8)?;
        if let Some(of_symbol) = relocation.last_chunk_mut()
            && removed.contains(&at)
        {
            *of_symbol = symbol;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call of a function.
    const CALL: Instruction = [0x85, 0x10, 0, 0, 0xff, 0xff, 0xff, 0xff];
    const EXIT: Instruction = [0x95, 0, 0, 0, 0, 0, 0, 0];

    const fn jump(code: u8, offset: u8, immediate: u8) -> Instruction {
        [code, 0, offset, 0, immediate, 0, 0, 0]
    }

    #[test]
    fn a_call_behind_a_branch_that_is_never_taken_is_removed() {
        let program = |branch| [branch, NOTHING, EXIT, CALL, EXIT];
        for (branch, removed) in [
            (jump(0x45, 2, 0), vec![3]),
            (jump(0x35, 2, 0), vec![]),
            (jump(0x15, 2, 0), vec![]),
            (jump(0x45, 2, 1), vec![]),
        ] {
            let mut instructions = program(branch);
            let found = remove_from(&mut instructions, vec![0]);
            assert_eq!(found, removed.into_iter().collect(), "{branch:?}");
            assert_eq!(instructions[3] == NOTHING, !found.is_empty(), "{branch:?}");
        }
    }

    #[test]
    fn each_function_is_followed_from_its_own_start() {
        let program = [EXIT, jump(0x05, 1, 0), CALL, CALL, EXIT];
        let found = remove_from(&mut program.clone(), vec![0, 1]);
        assert_eq!(found, BTreeSet::from([2]));
        // The second half of a number of 64 bits is no instruction.
        let load = [[0x18, 1, 0, 0, 7, 0, 0, 0], CALL, CALL, EXIT];
        assert_eq!(remove_from(&mut load.clone(), vec![0]), BTreeSet::from([1]));
    }

    #[test]
    fn the_relocation_of_a_removed_call_alone_is_left_out() {
        let relocation =
            |at: u8, symbol| [at * 8, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, symbol, 0, 0, 0];
        let mut relocations = [relocation(2, 9), relocation(3, 9)];
        leave_unrelocated(&mut relocations, &BTreeSet::from([3]), SymbolIndex(1)).unwrap();
        assert_eq!(relocations, [relocation(2, 9), relocation(3, 1)]);
    }
}
