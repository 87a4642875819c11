//! Our side of the comparison: what the official clients' `bench` programs in interop/ do, by our client.

use std::io;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use steadfast::client::{CallOptions, Client, Command};
use tokio::task::JoinSet;

/// For how long calls are made before they are counted, and while they are.
const WARM_UP: Duration = Duration::from_millis(300);
const COUNTED: Duration = Duration::from_millis(1000);

/// How often a kept list is asked for.
const HITS: u32 = 200_000;

const ARGUMENTS: &str = r#"{"account":"a-17","cents":500,"note":"for the coffee of the week"}"#;

pub(crate) enum Target<'a> {
    Url(&'a str),
    Command(&'a str),
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn call(target: Target<'_>) -> io::Result<()> {
    let client = match target {
        Target::Url(url) => Client::of_url(url).map_err(io::Error::other)?,
        Target::Command(command) => {
            let [program, args @ ..] = &serde_json::from_str::<Vec<String>>(command)?[..] else {
                return Err(io::Error::other("the command is empty"));
            };
            Client::of_command(Command {
                program: program.into(),
                args: args.iter().map(Into::into).collect(),
                env: Vec::new(),
                cwd: None,
            })
        }
    }
    .build();
    for in_flight in super::IN_FLIGHT {
        calls(&client, in_flight, WARM_UP).await?;
        let began = Instant::now();
        let made = calls(&client, in_flight, COUNTED).await?;
        println!("{in_flight} {}", f64::from(made) / began.elapsed().as_secs_f64());
    }
    client.close(Duration::from_secs(2)).await;
    Ok(())
}

/// What one list of tools costs that is kept, in microseconds of processor time.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn kept_list(url: &str) -> io::Result<f64> {
    let client = Client::of_url(url).map_err(io::Error::other)?.build();
    client.list_tools(CallOptions::default()).await.map_err(io::Error::other)?;
    let spent = || Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).map_err(io::Error::other);
    let before = spent()?;
    for _ in 0..HITS {
        let listed = client.list_tools(CallOptions::default()).await.map_err(io::Error::other)?;
        if !listed.hit {
            return Err(io::Error::other("the list was fetched again"));
        }
    }
    Ok((spent()? - before).as_secs_f64() * 1e6 / f64::from(HITS))
}

async fn calls(client: &Client, in_flight: usize, lasting: Duration) -> io::Result<u32> {
    let end = Instant::now() + lasting;
    let mut callers = JoinSet::new();
    for _ in 0..in_flight {
        let client = client.clone();
        callers.spawn(async move {
            let mut made = 0;
            while Instant::now() < end {
                let answered = client.call_tool("echo", ARGUMENTS, CallOptions::default()).await;
                let answered = answered.map_err(io::Error::other)?;
                if !answered.result.windows(6).any(|part| part == b"coffee") {
                    return Err(io::Error::other("the answer is another"));
                }
                made += 1;
            }
            Ok(made)
        });
    }
    let mut sum = 0;
    while let Some(made) = callers.join_next().await {
        sum += made.map_err(io::Error::other)??;
    }
    Ok(sum)
}
