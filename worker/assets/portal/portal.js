// The small part of the portal that lives in the browser: copy buttons, times in the reader's own zone, forms that are sent once, and
// regions that follow what happens. Every page works without it.

const localTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function dress(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    time.title = `${time.dateTime} UTC`;
    time.textContent = localTime.format(new Date(time.dateTime));
  }
  for (const button of root.querySelectorAll("button[data-copy]")) button.hidden = false;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  const said = button.textContent;
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {
    const range = document.createRange();
    range.selectNodeContents(source);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    button.textContent = "Selected: press Ctrl+C";
  }
  setTimeout(() => {
    button.textContent = said;
  }, 2000);
});

// A second click sends nothing.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
});
// Back from the browser's memory the page is as it was.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

/** Fetches this page again and puts its live region in the place of the old one. */
async function refresh(region) {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok || answer.redirected) return false;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(region.id);
  if (!fresh) return false;
  dress(fresh);
  if (fresh.innerHTML !== region.innerHTML) region.replaceChildren(...fresh.childNodes);
  return true;
}

const region = document.querySelector("[data-live]");
if (region) {
  const source = new EventSource(region.dataset.live);
  let under = false;
  let again = false;
  let missed = false;
  source.addEventListener("changed", async () => {
    again = true;
    if (under) return;
    under = true;
    while (again) {
      again = false;
      // A list under the reader's hand does not move; it follows as soon as the hand is elsewhere.
      missed = region.contains(document.activeElement);
      if (!missed) await refresh(region);
    }
    under = false;
  });
  region.addEventListener("focusout", () =>
    setTimeout(() => {
      if (!missed || region.contains(document.activeElement)) return;
      missed = false;
      refresh(region);
    }),
  );
  source.addEventListener("over", () => source.close());
  addEventListener("pagehide", () => source.close());
}

dress(document);
