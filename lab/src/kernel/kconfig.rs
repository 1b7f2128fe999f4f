//! Explains why a requested symbol is missing from the final `.config`, or has another value, by
//! evaluating the tree's Kconfig files against it.
//!
//! Reading them takes seconds, so this is done only after a failure.

use super::config::{Config, RequestedSymbol};
use anyhow::{Result, anyhow};
use nom_kconfig::{
    Attribute, Entry, KconfigFile, KconfigInput, Symbol,
    attribute::{
        AndExpression, Atom, CompareExpression, CompareOperator, Expression, OrExpression, Term, r#type::Type,
    },
    entry::Choice,
    parse_kconfig,
    symbol::ConstantSymbol,
};
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

/// The least similarity (Jaro-Winkler) of a known name that is suggested for an unknown one.
const NEAR: f64 = 0.85;

/// The symbols of a tree's Kconfig files.
#[derive(Debug, Default)]
pub(super) struct Kconfig {
    definitions: BTreeMap<String, Vec<Definition>>,
    /// For each symbol, the symbols that select it, each with its condition.
    selectors: BTreeMap<String, Vec<(String, Option<Expression>)>>,
    choices: Vec<Vec<String>>,
}

#[derive(Debug)]
struct Definition {
    /// Its dependencies, including those of the menus and ifs around it.
    needs: Vec<Expression>,
    /// Whether the user can set it, or only other symbols can.
    has_prompt: bool,
    choice: Option<usize>,
}

/// The context of an entry: dependencies and choice of the blocks around it.
#[derive(Clone, Default)]
struct Around {
    needs: Vec<Expression>,
    choice: Option<usize>,
}

impl Kconfig {
    /// Reads the Kconfig files of a tree for arm64.
    pub(super) fn load(tree: &Path) -> Result<Kconfig> {
        let variables = HashMap::from([("SRCARCH", "arm64"), ("ARCH", "arm64")]);
        let file =
            KconfigFile::new_with_vars(tree.to_owned(), tree.join("Kconfig"), &variables, &HashMap::new());
        let text =
            file.read_to_string().map_err(|error| anyhow!("cannot read the tree's Kconfig: {error}"))?;
        Kconfig::parse(&text, file)
    }

    fn parse(text: &str, file: KconfigFile) -> Result<Kconfig> {
        let (_, parsed) = parse_kconfig(KconfigInput::new_extra(text, file))
            .map_err(|error| anyhow!("cannot read the tree's Kconfig files: {error}"))?;
        let mut kconfig = Kconfig::default();
        kconfig.enter(&parsed.entries, &Around::default());
        Ok(kconfig)
    }

    fn enter(&mut self, entries: &[Entry], around: &Around) {
        for entry in entries {
            match entry {
                Entry::Config(config) => self.define(&config.symbol, &config.attributes, around),
                Entry::MenuConfig(config) => self.define(&config.symbol, &config.attributes, around),
                Entry::Menu(menu) => {
                    let mut inside = around.clone();
                    inside.needs.extend(menu.depends_on.iter().map(|depends| depends.expression.clone()));
                    self.enter(&menu.entries, &inside);
                }
                Entry::If(condition) => {
                    let mut inside = around.clone();
                    inside.needs.push(condition.condition.clone());
                    self.enter(&condition.entries, &inside);
                }
                Entry::Choice(choice) => self.enter_choice(choice, around),
                Entry::Source(source) => {
                    for kconfig in &source.kconfigs {
                        self.enter(&kconfig.entries, around);
                    }
                }
                _ => {}
            }
        }
    }

    fn enter_choice(&mut self, choice: &Choice, around: &Around) {
        let mut inside = around.clone();
        inside.needs.extend(needs_of(&choice.options));
        inside.choice = Some(self.choices.len());
        self.choices.push(Vec::new());
        self.enter(&choice.entries, &inside);
    }

    fn define(&mut self, symbol: &str, attributes: &[Attribute], around: &Around) {
        let mut needs = around.needs.clone();
        needs.extend(needs_of(attributes));
        let mut has_prompt = false;
        for attribute in attributes {
            match attribute {
                Attribute::Prompt(prompt) => {
                    has_prompt = true;
                    needs.extend(prompt.r#if.clone());
                }
                Attribute::Type(kind) => {
                    if let Type::Bool(Some(_))
                    | Type::Tristate(Some(_))
                    | Type::String(Some(_))
                    | Type::Hex(Some(_))
                    | Type::Int(Some(_)) = &kind.r#type
                    {
                        has_prompt = true;
                        needs.extend(kind.r#if.clone());
                    }
                }
                Attribute::Select(select) => {
                    let selector = (symbol.to_owned(), select.r#if.clone());
                    self.selectors.entry(select.symbol.clone()).or_default().push(selector);
                }
                _ => {}
            }
        }
        if let Some(members) = around.choice.and_then(|choice| self.choices.get_mut(choice)) {
            members.push(symbol.to_owned());
        }
        let definition = Definition { needs, has_prompt, choice: around.choice };
        self.definitions.entry(symbol.to_owned()).or_default().push(definition);
    }

    /// Returns the reason why `asked` is missing from `config` or has another value.
    pub(super) fn explain(&self, asked: &RequestedSymbol, config: &Config) -> String {
        let symbol = asked.symbol.as_str();
        let Some(definitions) = self.definitions.get(symbol) else {
            let near = |known: &&String| strsim::jaro_winkler(known, symbol);
            let nearest = self.definitions.keys().max_by(|a, b| near(a).total_cmp(&near(b)));
            return match nearest.filter(|known| near(known) >= NEAR) {
                Some(known) => format!("this kernel has no such symbol; the nearest is CONFIG_{known}"),
                None => "this kernel has no such symbol".into(),
            };
        };
        let selected_by = self.selected_by(symbol, config);
        if (asked.value == "n" || asked.value == "m" && config.get(symbol) == Some("y"))
            && !selected_by.is_empty()
        {
            return format!("selected by {}", list(&selected_by));
        }
        // A symbol may be defined more than once: report the definition with the fewest unmet
        // dependencies.
        let unmet = definitions.iter().map(|definition| unmet(&definition.needs, config));
        let unmet = unmet.min_by_key(Vec::len).unwrap_or_default();
        if !unmet.is_empty() {
            return format!("unmet: {}", unmet.join(", "));
        }
        if !definitions.iter().any(|definition| definition.has_prompt) {
            let selectors = self.selectors.get(symbol).map(Vec::as_slice).unwrap_or_default();
            let names: Vec<String> = selectors.iter().map(|(name, _)| name.clone()).collect();
            return match names.is_empty() {
                true => "cannot be set, only computed by Kconfig".into(),
                false => format!("cannot be set, only selected by {}", list(&names)),
            };
        }
        let members = definitions.iter().find_map(|definition| self.choices.get(definition.choice?));
        if let Some(chosen) = members.and_then(|members| members.iter().find(|name| config.is_set(name)))
            && chosen != symbol
        {
            return format!("its choice allows one symbol only, and CONFIG_{chosen} is set");
        }
        let macros: Vec<String> = definitions.iter().flat_map(|d| macros_in(&d.needs)).collect();
        if !macros.is_empty() {
            return format!("depends on a toolchain check: {}", macros.join(", "));
        }
        format!("its value is {}", config.get(symbol).unwrap_or("n"))
    }

    fn selected_by(&self, symbol: &str, config: &Config) -> Vec<String> {
        let selectors = self.selectors.get(symbol).map(Vec::as_slice).unwrap_or_default();
        let active = selectors.iter().filter(|(name, condition)| {
            config.is_set(name) && condition.as_ref().is_none_or(|condition| value(condition, config) > 0)
        });
        active.map(|(name, _)| name.clone()).collect()
    }
}

fn needs_of(attributes: &[Attribute]) -> impl Iterator<Item = Expression> + '_ {
    attributes.iter().filter_map(|attribute| match attribute {
        // `depends on X if Y` requires X only if Y holds, so an unmet X explains nothing.
        Attribute::DependsOn(depends) if depends.r#if.is_none() => Some(depends.expression.clone()),
        Attribute::Requires(expression) => Some(expression.clone()),
        _ => None,
    })
}

fn list(names: &[String]) -> String {
    let mut text = names.iter().take(4).map(|name| format!("CONFIG_{name}")).collect::<Vec<_>>().join(", ");
    if names.len() > 4 {
        text += &format!(" and {} more", names.len() - 4);
    }
    text
}

/// The parts of `needs` that are false, in Kconfig syntax, each with the symbol's value.
fn unmet(needs: &[Expression], config: &Config) -> Vec<String> {
    let mut parts = Vec::new();
    for expression in needs {
        unmet_or(expression, config, &mut parts);
    }
    let mut seen = std::collections::BTreeSet::new();
    parts.retain(|part| seen.insert(part.clone()));
    parts
}

fn unmet_or(expression: &Expression, config: &Config, parts: &mut Vec<String>) {
    if value(expression, config) > 0 {
        return;
    }
    match expression {
        OrExpression::Term(AndExpression::Term(term)) => unmet_term(term, config, parts),
        OrExpression::Term(AndExpression::Expression(terms)) => {
            for term in terms {
                unmet_term(term, config, parts);
            }
        }
        OrExpression::Expression(_) => parts.push(format!("({expression}), none of which is set")),
    }
}

fn unmet_term(term: &Term, config: &Config, parts: &mut Vec<String>) {
    if term_value(term, config) > 0 {
        return;
    }
    match term {
        Term::Atom(Atom::Parenthesis(inside)) => unmet_or(inside, config, parts),
        Term::Atom(Atom::Symbol(Symbol::NonConstant(name))) => {
            parts.push(format!("CONFIG_{name} is not set"));
        }
        Term::Not(Atom::Symbol(Symbol::NonConstant(name))) => {
            parts.push(format!("!CONFIG_{name}, but it is {}", config.get(name).unwrap_or("n")));
        }
        Term::Atom(Atom::Compare(compare)) => {
            let left = compare.left.to_string();
            parts.push(format!("{compare}, but {left} is {}", config.get(&left).unwrap_or("n")));
        }
        _ => parts.push(term.to_string()),
    }
}

/// 0, 1 or 2, for kconfig's n, m and y.
fn value(expression: &Expression, config: &Config) -> u8 {
    match expression {
        OrExpression::Term(and) => and_value(and, config),
        OrExpression::Expression(terms) => {
            terms.iter().map(|and| and_value(and, config)).max().unwrap_or_default()
        }
    }
}

fn and_value(expression: &AndExpression, config: &Config) -> u8 {
    match expression {
        AndExpression::Term(term) => term_value(term, config),
        AndExpression::Expression(terms) => {
            terms.iter().map(|term| term_value(term, config)).min().unwrap_or_default()
        }
    }
}

fn term_value(term: &Term, config: &Config) -> u8 {
    match term {
        // A macro runs a tool: assume that it holds, negated or not.
        Term::Atom(Atom::Macro(_)) | Term::Not(Atom::Macro(_)) => 2,
        Term::Atom(atom) => atom_value(atom, config),
        Term::Not(atom) => 2 - atom_value(atom, config),
    }
}

fn atom_value(atom: &Atom, config: &Config) -> u8 {
    match atom {
        Atom::Macro(_) => 2,
        Atom::Parenthesis(expression) => value(expression, config),
        Atom::Compare(compare) => 2 * u8::from(compares(compare, config)),
        Atom::Symbol(symbol) => match text_of(symbol, config).as_str() {
            "y" => 2,
            "m" => 1,
            _ => 0,
        },
    }
}

fn compares(compare: &CompareExpression, config: &Config) -> bool {
    use nom_kconfig::attribute::expression::CompareOperand;
    let text = |operand: &CompareOperand| match operand {
        CompareOperand::Symbol(symbol) => Some(text_of(symbol, config)),
        CompareOperand::Macro(_) => None,
    };
    let (Some(left), Some(right)) = (text(&compare.left), text(&compare.right)) else { return true };
    let order = match (left.parse::<i64>(), right.parse::<i64>()) {
        (Ok(left), Ok(right)) => left.cmp(&right),
        _ => left.cmp(&right),
    };
    match compare.operator {
        CompareOperator::GreaterThan => order.is_gt(),
        CompareOperator::GreaterOrEqual => order.is_ge(),
        CompareOperator::LowerThan => order.is_lt(),
        CompareOperator::LowerOrEqual => order.is_le(),
        CompareOperator::Equal => order.is_eq(),
        CompareOperator::NotEqual => order.is_ne(),
    }
}

fn text_of(symbol: &Symbol, config: &Config) -> String {
    match symbol {
        Symbol::Constant(ConstantSymbol::Integer(number)) => number.to_string(),
        Symbol::Constant(ConstantSymbol::Boolean(set)) => if *set { "y" } else { "n" }.to_owned(),
        Symbol::Constant(ConstantSymbol::Hex(text) | ConstantSymbol::String(text)) => text.clone(),
        Symbol::Constant(ConstantSymbol::Tristate(tristate)) => tristate.to_string(),
        // The letters y, m and n are constants, too, and numbers may lack quotes.
        Symbol::NonConstant(name) if matches!(name.as_str(), "y" | "m" | "n") => name.clone(),
        Symbol::NonConstant(name) if name.parse::<i64>().is_ok() => name.clone(),
        Symbol::NonConstant(name) => config.get(name).unwrap_or("n").trim_matches('"').to_owned(),
    }
}

/// The expressions among `needs` with macros, whose values are not in any `.config`.
fn macros_in(needs: &[Expression]) -> Vec<String> {
    let mut found = Vec::new();
    for expression in needs {
        let text = expression.to_string();
        if text.contains("$(") {
            found.push(text);
        }
    }
    found
}

#[cfg(test)]
#[path = "kconfig_tests.rs"]
mod tests;
