//! Values that a text step captures for later steps: the address, the instructions, and their branch target.

use super::Site;
use crate::{arm64, recording::captures::Captures, scenario::PatchedText};
use std::collections::BTreeMap;

/// Captures the first site of a step under the step's name, if it has one and the whole site could be read.
pub(super) fn keep(step: &PatchedText, sites: &[Site], words: &BTreeMap<u64, u32>, captures: &mut Captures) {
    let (Some(name), Some(site)) = (&step.name, sites.first()) else { return };
    let found: Option<Vec<(u64, u32)>> =
        site.addresses(step).map(|address| Some((address, *words.get(&address)?))).collect();
    let Some(found) = found else { return };
    captures.set(name, &format!("{:#x}", site.address));
    let shown: Vec<String> = found.iter().map(|(_, word)| format!("{word:08x}")).collect();
    captures.set(&format!("{name}_words"), &shown.join(" "));
    if let Some(target) = found.iter().find_map(|(address, word)| arm64::target(*address, *word)) {
        captures.set(&format!("{name}_to"), &format!("{target:#x}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Scenario, Step};
    use std::path::Path;

    #[test]
    fn a_place_is_kept_with_its_instructions_and_where_they_go() {
        let yaml = "summary: x\nsteps: [ { text: { ftrace_site: f }, as: site } ]";
        let scenario = Scenario::parse(Path::new("x.yaml"), yaml).unwrap();
        let Step::PatchedText(step) = &scenario.steps[0].value else { panic!("{scenario:?}") };
        let words = BTreeMap::from([(0x1000, 0xaa1e_03e9), (0x1004, arm64::branch_link(0x1004, 0x2000))]);
        let mut captures = Captures::new();
        keep(step, &[Site::at(0x1000)], &words, &mut captures);
        assert_eq!(
            captures.expand("${site}: ${site_words} to ${site_to}").unwrap(),
            "0x1000: aa1e03e9 940003ff to 0x2000"
        );
        // A part of the site is not captured.
        let mut captures = Captures::new();
        keep(step, &[Site::at(0x1004)], &words, &mut captures);
        assert!(captures.expand("${site}").is_err());
    }
}
