//! Lists of CPUs, as the kernel prints them.

/// Counts the CPUs in a list such as `0-1,4`. What is not a CPU or a range of them counts as none.
pub fn count_of_cpus(list: &str) -> u32 {
    let count = |part: &str| -> Option<u32> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.trim().split(',').filter_map(count).fold(0, u32::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_counted() {
        let check = |list, expect| assert_eq!(count_of_cpus(list), expect, "{list}");
        check("0-1\n", 2);
        check("0", 1);
        check("0-3,6,8-9", 7);
        check("0,2-5\n", 5);
        check("", 0);
        check("3-1", 0);
        check("0-4294967294,7", u32::MAX);
        check("0-4294967295", 0);
    }
}
