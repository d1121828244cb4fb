//! A panic of the driver or the kernel is the reason why the engine stopped.

use std::any::Any;

use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Publishes the message of a panic when the task of the driver has ended with one.
pub(super) async fn report(driver: JoinHandle<()>, why: watch::Sender<Option<String>>) {
    let Err(ended) = driver.await else { return };
    if let Ok(panic) = ended.try_into_panic() {
        let message = message(panic.as_ref());
        tracing::error!("the engine panicked: {message}");
        why.send_replace(Some(format!("the engine panicked: {message}")));
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
