//! Evaluates conditions on events.
//!
//! CEL looks up variables in the event while it runs, so that only fields that a condition names are
//! decoded. An integer field that fits is a CEL `int`, signed or not, so that `ret == 8` and `count + 1`
//! need no suffix.

use super::{
    comparison,
    observed::{Observed, lookup},
};
use crate::scenario::{
    Literal,
    condition::{BOUND_PREFIX, Condition, Conjunct, SYMBOL_PREFIX},
};
use cel::{
    Context, Env, ExecutionError,
    common::{
        types::{CelBool, CelBytes, CelInt, CelList, CelString, CelUInt, INT_TYPE, UINT_TYPE},
        value::{CowVal, Val},
    },
    context::VariableResolver,
};
use std::sync::{Arc, LazyLock};
use trace::Value;

/// Values kept from earlier events, by name.
pub(super) type Bound = [(String, Literal)];

/// The result of a condition on an event.
#[derive(Debug, PartialEq)]
pub(super) enum ConditionResult {
    Yes,
    /// The part with this index is false.
    No(usize),
    /// The part with this index cannot be evaluated, for this reason.
    Error(usize, String),
}

/// CEL's standard functions and the lab's.
static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    for (id, a, b) in [
        ("bits_int_int", INT_TYPE, INT_TYPE),
        ("bits_uint_int", UINT_TYPE, INT_TYPE),
        ("bits_int_uint", INT_TYPE, UINT_TYPE),
        ("bits_uint_uint", UINT_TYPE, UINT_TYPE),
    ] {
        // This fails only if an ID or a signature exists already.
        let _ = env.add_overload("bits", id, vec![a, b], bits);
    }
    Arc::new(env)
});

/// `bits(flags, 0x40)`: returns these bits of a value as an integer.
fn bits<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let mut result = u64::MAX;
    for argument in &arguments {
        result &= match (argument.downcast_ref::<CelInt>(), argument.downcast_ref::<CelUInt>()) {
            (Some(number), _) => *number.inner() as u64,
            (_, Some(number)) => *number.inner(),
            _ => return Err(ExecutionError::function_error("bits", "expected two integers")),
        };
    }
    Ok(CowVal::Owned(unsigned(result)))
}

/// Resolves a condition's names in one event.
struct Names<'a, E: ?Sized> {
    event: &'a E,
    bound: &'a Bound,
}

impl<E: Observed + ?Sized> VariableResolver for Names<'_, E> {
    fn resolve<'b>(&'b self, name: &str) -> Option<CowVal<'b, 'b>> {
        if let Some(bound) = name.strip_prefix(BOUND_PREFIX) {
            let (_, value) = self.bound.iter().find(|(name, _)| name == bound)?;
            return Some(CowVal::Owned(of_literal(value)));
        }
        if let Some(field) = name.strip_prefix(SYMBOL_PREFIX) {
            let symbol = match lookup(self.event, field)? {
                Value::Unsigned(address) => self.event.symbol(address),
                Value::Signed(address) => self.event.symbol(address as u64),
                _ => None,
            };
            return Some(CowVal::owned(CelString::from(symbol.map_or("", |(name, _)| name))));
        }
        lookup(self.event, name).map(|value| CowVal::Owned(of_value(value)))
    }
}

impl<E: Observed + ?Sized> Names<'_, E> {
    fn context(&self) -> Context<'_, '_> {
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        context.set_variable_resolver(self);
        context
    }
}

fn unsigned<'v>(number: u64) -> Box<dyn Val + 'v> {
    match i64::try_from(number) {
        Ok(number) => Box::new(CelInt::from(number)),
        Err(_) => Box::new(CelUInt::from(number)),
    }
}

fn of_value<'v>(value: Value<'v>) -> Box<dyn Val + 'v> {
    match value {
        Value::Signed(number) => Box::new(CelInt::from(number)),
        Value::Unsigned(number) => unsigned(number),
        Value::Text(std::borrow::Cow::Borrowed(text)) => Box::new(CelString::from(text)),
        Value::Text(std::borrow::Cow::Owned(text)) => Box::new(CelString::from(text)),
        Value::Bytes(bytes) => Box::new(CelBytes::from(bytes.into_owned())),
        Value::List(list) => Box::new(CelList::from(list.into_iter().map(of_value).collect::<Vec<_>>())),
    }
}

fn of_literal<'v>(value: &'v Literal) -> Box<dyn Val + 'v> {
    match value {
        Literal::Int(number) => match (i64::try_from(*number), u64::try_from(*number)) {
            (Ok(number), _) => Box::new(CelInt::from(number)),
            (_, Ok(number)) => Box::new(CelUInt::from(number)),
            // Fields have at most 64 bits; a larger number equals none of them.
            _ => Box::new(CelString::from("an integer of more than 64 bits")),
        },
        Literal::Text(text) => Box::new(CelString::from(text.as_str())),
        Literal::List(list) => Box::new(CelList::from(list.iter().map(of_literal).collect::<Vec<_>>())),
    }
}

impl Condition {
    /// Evaluates the condition on `event`. As with `&&`, a false part decides even if other parts cannot
    /// be evaluated.
    pub(in crate::verdict) fn holds<E: Observed + ?Sized>(
        &self,
        event: &E,
        bound: &Bound,
    ) -> ConditionResult {
        let names = Names { event, bound };
        let mut context = None;
        let mut error = None;
        for (index, part) in self.parts().iter().enumerate() {
            let compared =
                part.comparison.as_ref().and_then(|comparison| comparison::holds(comparison, event, bound));
            let holds =
                compared.map_or_else(|| part.holds(context.get_or_insert_with(|| names.context())), Ok);
            match holds {
                Ok(true) => {}
                Ok(false) => return ConditionResult::No(index),
                Err(message) => error = error.or(Some((index, message))),
            }
        }
        match error {
            None => ConditionResult::Yes,
            Some((index, message)) => ConditionResult::Error(index, message),
        }
    }
}

impl Conjunct {
    fn holds(&self, context: &Context<'_, '_>) -> Result<bool, String> {
        match cel::Value::resolve_val(&self.expression, context) {
            Ok(value) => match value.downcast_ref::<CelBool>() {
                Some(value) => Ok(*value.inner()),
                None => Err("it is not true or false".to_owned()),
            },
            Err(ExecutionError::UndeclaredReference(name)) => {
                let name = name.strip_prefix(SYMBOL_PREFIX).unwrap_or(&name);
                Err(format!("the event has no field `{name}`"))
            }
            Err(error) => Err(error.to_string()),
        }
    }
}
