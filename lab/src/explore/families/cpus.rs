//! The second CPU taken off and on again.

use super::Family;
use crate::explore::{
    draw::Draw,
    names::{switch, write},
    state::{Errno, Model},
};
use serde::{Deserialize, Serialize};

const ONLINE: &str = "/sys/devices/system/cpu/cpu1/online";

/// Takes the second CPU on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) struct Cpus(pub(in crate::explore) bool);

impl Family for Cpus {
    const WEIGHT: usize = 1;

    fn draw(draw: &mut Draw<'_>) -> Cpus {
        Cpus(draw.random.bool())
    }

    fn knows(&self, model: &Model) -> bool {
        model.facts.icount.is_none()
    }

    fn apply(&self, model: &mut Model) -> Result<(), Errno> {
        model.cpu_off = !self.0;
        Ok(())
    }

    fn step(&self, _: &Model) -> String {
        write(ONLINE, switch(self.0), false)
    }

    fn look(model: &Model) -> Vec<String> {
        let read = || format!("read: {ONLINE:?}, text: {{ equal: {:?} }}", switch(!model.cpu_off));
        Vec::from_iter(model.facts.icount.is_none().then(read))
    }

    fn tear_down(model: &Model) -> Vec<Cpus> {
        Vec::from_iter(model.cpu_off.then_some(Cpus(true)))
    }
}
