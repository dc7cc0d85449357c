//! Rules in configuration files of any format.

use std::fmt;

use ratekeeper_key::Registry;
use serde::de::{
    DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer,
};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::print::{Quoted, has_code};
use super::text::{Draft, Fault, GENERATION, Line, UNMATCHED};
use super::{RuleSet, Rules, Unmatched};
use crate::rule::{Pattern, Rule, method};

impl Rules {
    /// Reads rules whose keys may be extractors of one's own, or addresses behind proxies, out of a
    /// configuration file.
    ///
    /// # Errors
    ///
    /// When what is read is neither the text form nor a list of rules, or a rule is malformed.
    ///
    /// # Examples
    ///
    /// ```
    /// use serde::{Deserialize, Deserializer};
    /// use tower_ratekeeper::Rules;
    /// use tower_ratekeeper::key::{FrontEnd, Networks, Registry};
    ///
    /// #[derive(Deserialize)]
    /// struct Config {
    ///     #[serde(deserialize_with = "rules")]
    ///     limits: Rules,
    /// }
    ///
    /// fn rules<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Rules, D::Error> {
    ///     let ip = FrontEnd::Nginx.within(Networks::loopback());
    ///     Rules::deserialize_with(&Registry::new().with_client_ip(ip), deserializer)
    /// }
    ///
    /// let config: Config = toml::from_str(r#"limits = ["per-ip: token-bucket 60/min by ip"]"#)?;
    /// assert_eq!(config.limits.to_string(), "per-ip: token-bucket 60/min by ip\n");
    /// # Ok::<(), toml::de::Error>(())
    /// ```
    pub fn deserialize_with<'de, D: Deserializer<'de>>(
        registry: &Registry,
        deserializer: D,
    ) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrList(registry))
    }
}

/// Reads the text form, or a list of lines of it and of maps; see [`rules`](crate::rules).
impl<'de> Deserialize<'de> for Rules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize_with(&Registry::new(), deserializer)
    }
}

/// Reads what [`Rules`] reads, and checks the rules together.
impl<'de> Deserialize<'de> for RuleSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Rules::deserialize(deserializer)?
            .check()
            .map_err(D::Error::custom)
    }
}

/// Writes a list of lines of the text form. A rule in which code has a part is an error: it could
/// not be read again.
impl Serialize for Rules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(rule) = self.iter().find(|rule| has_code(rule)) {
            let error =
                format_args!("code has a part in this rule, which no text can bring: {rule}");
            return Err(S::Error::custom(error));
        }
        let unmatched = match self.unmatched() {
            Unmatched::Impossible => None,
            Unmatched::Allow => Some(format!("{UNMATCHED}: allow")),
        };
        let generation = match self.generation() {
            0 => None,
            generation => Some(format!("{GENERATION}: {generation}")),
        };
        let about_all = unmatched.into_iter().chain(generation);
        serializer.collect_seq(self.iter().map(ToString::to_string).chain(about_all))
    }
}

/// Writes what [`Rules`] writes, in the modes that the rules have now.
impl Serialize for RuleSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_rules().serialize(serializer)
    }
}

struct TextOrList<'r>(&'r Registry);

impl<'de> Visitor<'de> for TextOrList<'_> {
    type Value = Rules;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of rules, or text with a rule on each line")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Rules, E> {
        Rules::parse_with(text, self.0).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Rules, A::Error> {
        let mut all = Rules::default();
        while all.iter().len() <= RuleSet::MAX_RULES {
            let Some(rules) = list.next_element_seed(LineOrMap(self.0))? else {
                return Ok(all);
            };
            if rules.unmatched() == Unmatched::Allow {
                all = all.with_unmatched(Unmatched::Allow);
            }
            match (all.generation(), rules.generation()) {
                (_, 0) => {}
                (0, generation) => all = all.with_generation(generation),
                _ => return Err(A::Error::custom("`generation` is there twice")),
            }
            rules.into_iter().for_each(|rule| all.push(rule));
        }
        // Too many, which the check will tell; a list is read to its end.
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(all)
    }
}

#[derive(Clone, Copy)]
struct LineOrMap<'r>(&'r Registry);

impl<'de> DeserializeSeed<'de> for LineOrMap<'_> {
    type Value = Rules;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Rules, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for LineOrMap<'_> {
    type Value = Rules;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rule, as text or as a map")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Rules, E> {
        TextOrList(self.0).visit_str(text)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Rules, A::Error> {
        let map = Map::deserialize(MapAccessDeserializer::new(map))?;
        map.rules(self.0)
    }
}

/// A rule as a map, in the words of the text form.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct Map {
    unmatched: Option<String>,
    generation: Option<u32>,
    name: Option<String>,
    algorithm: Option<String>,
    quota: Option<String>,
    burst: Option<u64>,
    at: Option<String>,
    plans: Plans,
    by: Option<String>,
    on: Option<On>,
    cost: Option<Word>,
    max_cost: Option<u64>,
    max_debt: Option<u64>,
    counter: Option<String>,
    settle: Option<String>,
    abort: Option<String>,
    refund_errors: Option<String>,
    mode: Option<String>,
    status: Option<Word>,
    jitter: Option<String>,
    queue: Option<String>,
    wait_up_to: Option<String>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct On {
    methods: Vec<String>,
    paths: Vec<String>,
}

impl Map {
    fn rules<E: Error>(mut self, registry: &Registry) -> Result<Rules, E> {
        match self.unmatched.take().as_deref() {
            None => {}
            Some("allow") if self == Self::default() => {
                return Ok(Rules::default().with_unmatched(Unmatched::Allow));
            }
            Some("allow") => {
                return Err(E::custom(
                    "`unmatched` is about all rules and stands in a map of its own",
                ));
            }
            Some(_) => return Err(E::custom("unmatched: expected `allow`")),
        }
        if let Some(generation) = self.generation.take() {
            if self != Self::default() {
                return Err(E::custom(
                    "`generation` is about all rules and stands in a map of its own",
                ));
            }
            return Ok(Rules::default().with_generation(generation));
        }
        let name = self.name.take().ok_or_else(|| E::missing_field("name"))?;
        let rule = self.rule(&name, registry);
        let rule = rule.map_err(|(field, fault)| match field {
            // What the parts say of each other names the rule itself.
            "" => E::custom(fault),
            field => E::custom(format_args!("rule {name:?}: {field}: {fault}")),
        })?;
        Ok(Rules::from_iter([rule]))
    }

    /// Makes the rule, by what reads the text form; the error comes with the name of the field.
    fn rule(self, name: &str, registry: &Registry) -> Result<Rule, (&'static str, Fault)> {
        // Each value is read to its end, so that none can bring a clause of another kind.
        let mut base = self.algorithm.unwrap_or_default();
        if let Some(quota) = self.quota {
            base = format!("{base} {quota}");
        }
        if let Some(burst) = self.burst {
            base = format!("{base} burst {burst}");
        }
        let mut draft = whole(&base, |line| Draft::begin(name, line, registry))
            .map_err(|fault| ("algorithm and quota", fault))?;
        for (plan, quota) in self.plans.0 {
            let plan = format!("{} {quota}", Quoted(&plan));
            whole(&plan, |line| draft.value("plan", 0, line)).map_err(|fault| ("plans", fault))?;
        }
        let place = self.on.map(On::text).transpose();
        let numbers = |number: Option<u64>| number.map(|number| number.to_string());
        let clauses = [
            ("at", self.at),
            ("by", self.by),
            ("on", place.map_err(|fault| ("on", fault))?),
            ("cost", self.cost.map(|word| word.0)),
            ("max-cost", numbers(self.max_cost)),
            ("max-debt", numbers(self.max_debt)),
            (
                "counter",
                self.counter.map(|name| Quoted(&name).to_string()),
            ),
            ("settle", self.settle),
            ("abort", self.abort),
            ("refund-errors", self.refund_errors),
            ("status", self.status.map(|word| word.0)),
            ("jitter", self.jitter),
            ("queue", self.queue),
            ("wait-up-to", self.wait_up_to),
        ];
        for (clause, value) in clauses {
            if let Some(value) = value {
                whole(&value, |line| draft.value(clause, 0, line))
                    .map_err(|fault| (clause, fault))?;
            }
        }
        if let Some(mode) = self.mode {
            whole(&mode, |line| draft.mode(line)).map_err(|fault| ("mode", fault))?;
        }
        draft.finish().map_err(|fault| ("", fault))
    }
}

impl On {
    /// Returns the place as text, in which no method and no path is more than one.
    fn text(self) -> Result<String, Fault> {
        for name in &self.methods {
            method(name).map_err(|error| Fault::place(0, error))?;
        }
        for path in &self.paths {
            path.parse::<Pattern>()
                .map_err(|error| Fault::place(0, error))?;
        }
        Ok(format!(
            "{} {}",
            self.methods.join(","),
            self.paths.join(" ")
        ))
    }
}

/// Reads a value to its end.
fn whole<T>(value: &str, read: impl FnOnce(&mut Line<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
    let mut line = Line::whole(value);
    let read = read(&mut line)?;
    match line.is_empty() {
        true => Ok(read),
        false => Err(line.unexpected("nothing more")),
    }
}

/// Text, or a number as text.
#[derive(Debug, PartialEq)]
struct Word(String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrText;

        impl Visitor<'_> for NumberOrText {
            type Value = Word;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or text")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Word, E> {
                Ok(Word(number.to_string()))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Word, E> {
                Ok(Word(number.to_string()))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Word, E> {
                Ok(Word(text.to_owned()))
            }
        }

        deserializer.deserialize_any(NumberOrText)
    }
}

/// Plans with their quotas, in their order.
#[derive(Debug, Default, PartialEq)]
struct Plans(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Plans {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Plans;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from plans to quotas")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Plans, A::Error> {
                let mut plans = Vec::new();
                while let Some(plan) = map.next_entry()? {
                    plans.push(plan);
                }
                Ok(Plans(plans))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}
