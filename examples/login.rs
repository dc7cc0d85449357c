//! Logins: only failures count, by user and address together, and far higher by user alone, so
//! that nobody can lock somebody else out. The user's name lives in the body: the handler asks.
//!
//! ```text
//! cargo run --example login
//! curl -i -d user=ann -d password=wrong localhost:3000/login
//! ```

use std::error::Error;
use std::sync::Arc;

use axum::extract::{Form, State};
use axum::{Router, routing::post};
use http::StatusCode;
use ratekeeper_examples::{self as example, Address};
use tower_ratekeeper::core::{Acquire, Claim, Claims};
use tower_ratekeeper::{Key, Limit, LimitError, Memory, Quota, Settle, Store};

#[derive(serde::Deserialize)]
struct Login {
    user: String,
    password: String,
}

/// By user and address, and by user.
type Logins = Arc<(Memory, Limit, Limit)>;

async fn login(State(logins): State<Logins>, from: Address, Form(form): Form<Login>) -> StatusCode {
    let (memory, by_pair, by_user) = logins.as_ref();
    let pair = Key::builder().text(&form.user).address(from.0).finish();
    let by_pair = Claim::new(by_pair, pair).settled_later();
    let by_user = Claim::new(by_user, form.user).settled_later();
    // Charged first, so that attempts at the same time cannot all slip through.
    let claims = [by_pair, by_user];
    let acquired = Claims::new(&claims).map(|claims| memory.acquire(&claims));
    let Ok(Acquire::Now(Ok(answer))) = acquired else {
        return StatusCode::SERVICE_UNAVAILABLE;
    };
    if !answer.decision.is_allowed() {
        return StatusCode::TOO_MANY_REQUESTS;
    }
    if form.password != "open sesame" {
        return StatusCode::UNAUTHORIZED;
    }
    for receipt in answer.receipts {
        memory.settle(receipt, Settle::Refund);
    }
    StatusCode::OK
}

fn app(quota: Quota) -> Result<Router, LimitError> {
    let by_pair = Limit::sliding_log("login", quota)?;
    let wide = Quota::new(quota.units() * 100, quota.period());
    let by_user = Limit::sliding_log("login-user", wide)?;
    let logins: Logins = Arc::new((Memory::new(), by_pair, by_user));
    Ok(Router::new().route("/login", post(login)).with_state(logins))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let app = app(example::setting("QUOTA", "5/15min").parse()?)?;
    if !example::is_check() {
        return example::serve(app).await;
    }
    let (ann, mallory) = ([192, 0, 2, 1], [198, 51, 100, 66]);
    for (peer, password, times, status, why) in [
        (ann, "open+sesame", 20, 200, "success is free"),
        (mallory, "guess", 5, 401, "failures are counted"),
        (mallory, "open+sesame", 1, 429, "a right guess comes too late"),
        (ann, "open+sesame", 1, 200, "the user herself is not locked out"),
    ] {
        for _ in 0..times {
            let form = format!("user=ann&password={password}");
            let reply = example::post(&app, peer, "/login", &form).await?;
            assert_eq!(reply.status, status, "{why}");
        }
    }
    Ok(())
}
