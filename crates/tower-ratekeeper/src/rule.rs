//! A limit with where it applies, whom it counts for, what a request costs and who has a say.

mod base;
mod cost;
mod mode;
mod place;
mod plan;
mod settlement;

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, StatusCode};
use ratekeeper_core::{Algorithm, Limit, Quota, Settle};
use ratekeeper_key::{ByFn, KeyExtractor, Keyed, Peer, by_fn};

use crate::queue::Queue;
use crate::retry::Jitter;

pub(crate) use base::Base;
pub(crate) use cost::CostOf;
pub(crate) use mode::Switch;
pub use mode::{RuleMode, Share};
pub(crate) use place::method;
pub use place::{Pattern, PatternError, Place};
pub(crate) use plan::{PlanBy, Plans};
pub(crate) use settlement::{Ending, Settlement};
pub use settlement::{OnAbort, ResponseHead, SettleAs, SettleHandle};

/// One limit of a layer, and all that belongs to it.
///
/// A rule counts per client address unless [`by`](Self::by) says otherwise, applies to every
/// request unless [`on`](Self::on) narrows it, charges one unit unless [`cost`](Self::cost) or
/// [`cost_by`](Self::cost_by) says more, and is enforced unless a [`mode`](Self::mode) says not.
/// Mistakes are told when the layer or the [`RuleSet`](crate::RuleSet) is built.
///
/// # Examples
///
/// ```
/// use tower_ratekeeper::key::Header;
/// use tower_ratekeeper::{Quota, RateLimitLayer, Rule};
///
/// let layer = RateLimitLayer::new([
///     Rule::token_bucket("per-client", Quota::per_second(50)),
///     Rule::sliding_log("exports", Quota::per_hour(100))
///         .by(Header::from_static("x-api-key"))
///         .on(["GET"], ["/export/*"])
///         .cost(20),
/// ])?;
/// # Ok::<(), tower_ratekeeper::RuleError>(())
/// ```
#[derive(Clone)]
pub struct Rule {
    pub(crate) name: String,
    pub(crate) base: Base,
    pub(crate) plans: Plans,
    pub(crate) place: Result<Place, PatternError>,
    pub(crate) key: Arc<dyn KeyExtractor>,
    pub(crate) cost: CostOf,
    pub(crate) max_cost: Option<u64>,
    pub(crate) max_debt: Option<u64>,
    pub(crate) mode: RuleMode,
    pub(crate) settlement: Settlement,
    pub(crate) status: Option<StatusCode>,
    pub(crate) jitter: Option<Jitter>,
    pub(crate) counter: Option<String>,
    pub(crate) queue: Option<Queue>,
}

impl Rule {
    /// Creates a rule of this limit. Its bound on debt and the name of its counter, where they were
    /// set, are those of the rule's plans too. Its generation is that of the
    /// [set](crate::RuleSet::with_generation) it will be in.
    #[must_use]
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a limit made for a rule is of no use beside it"
    )]
    pub fn new(limit: Limit) -> Self {
        let (name, debt, counter) = (limit.name(), limit.max_debt(), limit.counter());
        let rule = Self::with(name, limit.algorithm(), limit.quota());
        let usual = rule.limit(limit.quota()).map(|limit| limit.max_debt());
        Self {
            max_debt: (usual != Ok(debt)).then_some(debt),
            counter: (counter != name).then(|| counter.to_owned()),
            ..rule
        }
    }

    pub(crate) fn of(name: &str, base: Base) -> Self {
        Self {
            name: name.to_owned(),
            base,
            plans: Plans::default(),
            place: Ok(Place::default()),
            key: Arc::new(Peer),
            cost: CostOf::default(),
            max_cost: None,
            max_debt: None,
            mode: RuleMode::Enforced,
            settlement: Settlement::default(),
            status: None,
            jitter: None,
            counter: None,
            queue: None,
        }
    }

    /// Creates a rule of this name, algorithm and quota.
    #[must_use]
    pub fn with(name: &str, algorithm: Algorithm, quota: Quota) -> Self {
        Self::of(name, Base::Limit(algorithm, quota))
    }

    /// Creates a rule of a token bucket: a burst at once, then the rate.
    #[must_use]
    pub fn token_bucket(name: &str, quota: Quota) -> Self {
        Self::with(name, Algorithm::TokenBucket, quota)
    }

    /// Creates a rule of a leaky bucket as a meter.
    #[must_use]
    pub fn leaky_bucket(name: &str, quota: Quota) -> Self {
        Self::with(name, Algorithm::LeakyBucket, quota)
    }

    /// Creates a rule of a fixed window from each key's first request.
    #[must_use]
    pub fn fixed_window(name: &str, quota: Quota) -> Self {
        Self::with(name, Algorithm::FixedWindow, quota)
    }

    /// Creates a rule of a sliding window log: exact in every interval.
    #[must_use]
    pub fn sliding_log(name: &str, quota: Quota) -> Self {
        Self::with(name, Algorithm::SlidingLog, quota)
    }

    /// Creates a rule of a sliding window counter.
    #[must_use]
    pub fn sliding_counter(name: &str, quota: Quota) -> Self {
        Self::with(name, Algorithm::SlidingCounter, quota)
    }

    /// Creates a rule named `preflights` for CORS preflights alone, by the client's address.
    ///
    /// A preflight is `OPTIONS` with `Origin` and `Access-Control-Request-Method`. It carries no
    /// credentials, and one that is refused fails the request behind it; so it deserves a generous
    /// limit of its own. In a set with such a rule, all others leave preflights alone. In the text
    /// form of rules it is one `on PREFLIGHT`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tower_ratekeeper::key::BearerToken;
    /// use tower_ratekeeper::{Quota, RateLimitLayer, Rule};
    ///
    /// let layer = RateLimitLayer::new([
    ///     Rule::token_bucket("per-user", Quota::per_second(10)).by(BearerToken),
    ///     Rule::preflights(Quota::per_second(50).with_burst(200)),
    /// ])?;
    /// # Ok::<(), tower_ratekeeper::RuleError>(())
    /// ```
    #[must_use]
    pub fn preflights(quota: Quota) -> Self {
        Self::token_bucket("preflights", quota).on([place::PREFLIGHT], [""; 0])
    }

    /// Creates a rule that refuses every request it applies to, without a `Retry-After`.
    #[must_use]
    pub fn deny_all(name: &str) -> Self {
        Self::of(name, Base::DenyAll)
    }

    /// Creates a rule that refuses nothing; of use as the catch-all of a set, or with plans.
    #[must_use]
    pub fn unlimited(name: &str) -> Self {
        Self::of(name, Base::Unlimited)
    }

    /// Sets whom the rule counts for. A tuple of extractors makes one key of all parts.
    #[must_use]
    pub fn by(mut self, key: impl KeyExtractor) -> Self {
        self.key = Arc::new(key);
        self
    }

    /// Sets whom the rule counts for, as a closure of the request's head.
    ///
    /// It may return anything that becomes a [`Keyed`]: text, a number, an address, a
    /// [`Key`](crate::Key), an `Option` (nothing is a missing identity, refused with 400) or a
    /// `Result` with a [`KeyError`](crate::key::KeyError).
    ///
    /// # Examples
    ///
    /// ```
    /// use tower_ratekeeper::{Quota, Rule};
    ///
    /// let rule = Rule::token_bucket("per-tenant", Quota::per_second(100)).by_fn(|parts| {
    ///     parts.headers.get("x-tenant").and_then(|tenant| tenant.to_str().ok()).map(str::to_owned)
    /// });
    /// ```
    #[must_use]
    pub fn by_fn<F, K>(self, key: F) -> Self
    where
        F: Fn(&Parts) -> K + Send + Sync + 'static,
        K: Into<Keyed>,
        ByFn<F>: KeyExtractor,
    {
        self.by(by_fn(key))
    }

    /// Narrows the rule to these methods (none means any; HEAD counts as GET) and path patterns
    /// (none means any); see [`Pattern`] for their form. Methods are in capitals, however they are
    /// written here: `get` is GET.
    #[must_use]
    pub fn on<M, P>(mut self, methods: M, patterns: P) -> Self
    where
        M: IntoIterator<Item: AsRef<str>>,
        P: IntoIterator<Item: AsRef<str>>,
    {
        let methods = methods
            .into_iter()
            .map(|method| place::method(method.as_ref()));
        let patterns = patterns.into_iter().map(|pattern| pattern.as_ref().parse());
        let methods = methods.collect::<Result<_, _>>();
        self.place = methods
            .and_then(|methods| Ok(Place::new(methods, patterns.collect::<Result<_, _>>()?)));
        self
    }

    /// Narrows the rule to this place.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.place = Ok(place);
        self
    }

    /// Sets what every request costs, in units. Zero counts nothing and is never refused.
    #[must_use]
    pub fn cost(mut self, units: u64) -> Self {
        self.cost = CostOf::Fixed(units);
        self
    }

    /// Sets what a request costs as a function of its head.
    ///
    /// A cost that the client names can be trusted only upwards: use
    /// [`cost_at_least`](Self::cost_at_least) for that.
    #[must_use]
    pub fn cost_by<F>(mut self, cost: F) -> Self
    where
        F: Fn(&Parts) -> u64 + Send + Sync + 'static,
    {
        self.cost = CostOf::by(0, cost);
        self
    }

    /// Sets what a request costs as a function of its head that can only raise `floor`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tower_ratekeeper::{Quota, Rule};
    ///
    /// // A client that asks for pages of a thousand pays for them; one that lies pays one unit.
    /// let rule = Rule::token_bucket("rows", Quota::per_minute(5_000)).cost_at_least(1, |parts| {
    ///     parts.headers.get("x-page-size").and_then(|size| size.to_str().ok()?.parse().ok()).unwrap_or(1)
    /// });
    /// ```
    #[must_use]
    pub fn cost_at_least<F>(mut self, floor: u64, cost: F) -> Self
    where
        F: Fn(&Parts) -> u64 + Send + Sync + 'static,
    {
        self.cost = CostOf::by(floor, cost);
        self
    }

    /// Leaves the cost to the settlement: a request is admitted if one unit would fit, and charged
    /// what it is settled for, even beyond the capacity up to the limit's `max_debt`. If nobody says
    /// what it cost, it is one unit.
    #[must_use]
    pub fn cost_later(mut self) -> Self {
        self.cost = CostOf::Deferred;
        self
    }

    /// Sets the most that a single request may cost. Above it a request is refused with 413,
    /// whatever stands in the bucket, and nothing is charged.
    #[must_use]
    pub fn max_cost(mut self, units: u64) -> Self {
        self.max_cost = Some(units);
        self
    }

    /// Sets the units above the capacity that settling may charge, under the rule's own quota and
    /// under its plans; one capacity unless set.
    #[must_use]
    pub fn max_debt(mut self, units: u64) -> Self {
        self.max_debt = Some(units);
        self
    }

    /// Sets who has a say: the rule, nobody, or it for a share of the keys.
    #[must_use]
    pub fn mode(mut self, mode: RuleMode) -> Self {
        self.mode = mode;
        self
    }

    /// Lets the rule count and be observed without refusing anything.
    #[must_use]
    pub fn shadowed(self) -> Self {
        self.mode(RuleMode::Shadowed)
    }

    /// Adds a plan with a quota of its own, of the rule's algorithm and, for a window or a log, of
    /// its period.
    #[must_use]
    pub fn plan(mut self, name: &str, quota: Quota) -> Self {
        self.plans.add(name, Some(quota));
        self
    }

    /// Adds a plan that is not limited by this rule.
    #[must_use]
    pub fn unlimited_plan(mut self, name: &str) -> Self {
        self.plans.add(name, None);
        self
    }

    /// Sets which of the plans a request has. Nothing, and a name that no plan has, is the rule's
    /// own quota.
    ///
    /// A key keeps what it has used when its plan changes, so going back and forth between plans
    /// yields no more than the larger one.
    ///
    /// # Examples
    ///
    /// ```
    /// use tower_ratekeeper::{Quota, Rule};
    ///
    /// /// What an authentication layer left in the extensions.
    /// #[derive(Clone)]
    /// struct Account { plan: String }
    ///
    /// let rule = Rule::token_bucket("per-user", Quota::per_minute(60))
    ///     .plan("pro", Quota::per_minute(600))
    ///     .unlimited_plan("staff")
    ///     .quota_by(|parts| parts.extensions.get::<Account>().map(|account| account.plan.as_str()));
    /// ```
    #[must_use]
    pub fn quota_by<F>(mut self, plan: F) -> Self
    where
        F: Fn(&Parts) -> Option<&str> + Send + Sync + 'static,
    {
        self.plans.by = Some(PlanBy::new(plan));
        self
    }

    /// Decides by the head of the response what a request finally cost; `None` leaves it to the
    /// end of the body.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::StatusCode;
    /// use tower_ratekeeper::{Quota, Rule, Settle};
    ///
    /// // Only failed logins count.
    /// let rule = Rule::sliding_log("logins", Quota::per_minute(5)).settle_by(|response| {
    ///     Some(if response.status == StatusCode::UNAUTHORIZED { Settle::Commit } else { Settle::Refund })
    /// });
    /// ```
    #[must_use]
    pub fn settle_by<F>(mut self, settle: F) -> Self
    where
        F: Fn(&ResponseHead<'_>) -> Option<Settle> + Send + Sync + 'static,
    {
        self.settlement.set_by_head(settle);
        self
    }

    /// Lets the handler decide what a request finally cost, by a [`SettleHandle`] from the
    /// request's extensions or a [`SettleAs`] in the response's; at the latest when the body ends.
    #[must_use]
    pub fn settle_by_handle(mut self) -> Self {
        self.settlement.set_by_handle();
        self
    }

    /// Decides by the trailers what a request finally cost; a body without trailers commits.
    #[must_use]
    pub fn settle_by_trailers<F>(mut self, settle: F) -> Self
    where
        F: Fn(&HeaderMap) -> Option<Settle> + Send + Sync + 'static,
    {
        self.settlement.set_by_trailers(settle);
        self
    }

    /// Sets what becomes of the charge when the client goes away before the response has ended.
    #[must_use]
    pub fn on_abort(mut self, choice: OnAbort) -> Self {
        self.settlement.on_abort = choice;
        self
    }

    /// Gives back what a request cost when it was answered with a server error, for each key at
    /// most `cap` times.
    ///
    /// The cap keeps a client that can provoke errors from being unlimited.
    #[must_use]
    pub fn refund_server_errors(mut self, cap: Quota) -> Self {
        self.settlement.refund_cap = Some(cap);
        self
    }

    /// Lets requests wait for their turn that the limit would refuse: a leaky bucket becomes one
    /// that shapes instead of one that meters.
    ///
    /// Of the rules of a set at most one has a queue. Whoever waits is charged nothing by any rule
    /// until its turn; then all are asked, and another rule that refuses does so with its own wait.
    /// While others of its key wait, a newcomer stands behind them, unless another rule refuses it
    /// already. A rule that is shadowed delays nobody, and a request that costs nothing never waits.
    ///
    /// See [`Queue`] for its bounds, and for when to queue and when to refuse. Needs a tokio runtime
    /// with time enabled.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_ratekeeper::queue::Queue;
    /// use tower_ratekeeper::{Quota, RateLimitLayer, Rule};
    ///
    /// // Ten a second, one by one; a hundred may wait, for five seconds at most.
    /// let layer = RateLimitLayer::new([
    ///     Rule::leaky_bucket("payments", Quota::per_second(10))
    ///         .queue(Queue::new(100).max_wait(Duration::from_secs(5))),
    /// ])?;
    /// # Ok::<(), tower_ratekeeper::RuleError>(())
    /// ```
    #[cfg(feature = "queue")]
    #[must_use]
    pub fn queue(mut self, queue: Queue) -> Self {
        self.queue = Some(queue);
        self
    }

    /// Lets requests wait, up to this long, that the limit would refuse; the limit stays as it is,
    /// burst and all. Short for a [`queue`](Self::queue) of [`Queue::wait_up_to`].
    #[cfg(feature = "queue")]
    #[must_use]
    pub fn wait_up_to(self, max_wait: std::time::Duration) -> Self {
        self.queue(Queue::wait_up_to(max_wait))
    }

    /// Sets the status of this rule's refusals; 429 unless set. Of several refusing rules the
    /// first decides.
    #[must_use]
    pub fn status(mut self, status: StatusCode) -> Self {
        self.status = Some(status);
        self
    }

    /// Sets what is added to the wait that a refused client is told. Unless set, nothing is for
    /// buckets, and up to a tenth of the window (at most 30 s) for the other algorithms, so that
    /// clients refused together do not return together.
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = Some(jitter);
        self
    }

    /// Counts under another name than the rule's, so that rules on one store can share a counter.
    #[must_use]
    pub fn counter(mut self, counter: &str) -> Self {
        self.counter = Some(counter.to_owned());
        self
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Prints the rule's text form.
impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rule({self})")
    }
}
