//! A miniature Kconfig, with one example of everything that keeps a symbol from being set.

use super::*;

const KCONFIG: &str = r#"
config ALWAYS
	bool "always"
	select SELECTED if HAVE_IT

config SELECTED
	bool "selected"

config HAVE_IT
	bool

config COMPUTED
	def_bool y
	depends on ALWAYS

config OFF
	bool "off"

config VERSION
	int

if ALWAYS

menu "a menu"
	depends on OFF

config INSIDE
	tristate "inside a menu"
	depends on HAVE_IT && !ALWAYS

config NEWER
	bool "newer" if VERSION >= 122
	depends on OFF || HAVE_IT

endmenu

choice
	prompt "one of two"

config ONE
	bool "one"

config TWO
	bool "two"

endchoice

config ASKS_THE_COMPILER
	bool "asks"
	depends on $(cc-option,-fnothing)

endif
"#;

fn check(asked: &str, config: &str, expect: &str) {
    let file = KconfigFile::new("/none".into(), "/none/Kconfig".into());
    let kconfig = Kconfig::parse(KCONFIG, file).unwrap();
    let (symbol, value) = asked.split_once('=').unwrap();
    let asked = RequestedSymbol { symbol: symbol.into(), value: value.into(), origin: "f:1".into() };
    let config: String = config.split_whitespace().map(|word| format!("CONFIG_{word}\n")).collect();
    assert_eq!(kconfig.explain(&asked, &Config::parse(&config)), expect, "{asked}");
}

#[test]
fn unmet_dependencies_are_those_of_the_symbol_and_of_what_stands_around_it() {
    check(
        "INSIDE=m",
        "ALWAYS=y",
        "unmet: CONFIG_OFF is not set, CONFIG_HAVE_IT is not set, !CONFIG_ALWAYS, but it is y",
    );
    check(
        "INSIDE=m",
        "",
        "unmet: CONFIG_ALWAYS is not set, CONFIG_OFF is not set, CONFIG_HAVE_IT is not set",
    );
    check(
        "NEWER=y",
        "ALWAYS=y VERSION=121",
        "unmet: CONFIG_OFF is not set, (OFF || HAVE_IT), none of which is set, VERSION >= 122, but VERSION is 121",
    );
    check("NEWER=y", "ALWAYS=y OFF=y VERSION=121", "unmet: VERSION >= 122, but VERSION is 121");
}

#[test]
fn what_no_person_can_set_is_said() {
    check("HAVE_IT=y", "", "cannot be set, only computed by Kconfig");
    check("SELECTED=n", "ALWAYS=y HAVE_IT=y SELECTED=y", "selected by CONFIG_ALWAYS");
    check("COMPUTED=y", "", "unmet: CONFIG_ALWAYS is not set");
    check("TWO=y", "ALWAYS=y ONE=y", "its choice allows one symbol only, and CONFIG_ONE is set");
    check("ASKS_THE_COMPILER=y", "ALWAYS=y", "depends on a toolchain check: $(cc-option, -fnothing)");
    check("ALWAYS=m", "ALWAYS=y", "its value is y");
}

#[test]
fn an_unknown_symbol_gets_the_nearest_name() {
    check("SELECTD=y", "", "this kernel has no such symbol; the nearest is CONFIG_SELECTED");
    check("ZZZ=y", "", "this kernel has no such symbol");
}
