'use strict';
(() => {
  const tools = document.getElementById('tools');
  const all = (selector) => Array.from(document.querySelectorAll(selector));
  const set = (open) => all('details').forEach((d) => { d.open = open; });
  const field = document.getElementById('find');
  const bad = document.getElementById('bad');
  if (tools) {
    tools.hidden = false;
    const filter = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      const wanted = (d) => {
        if (bad.checked && d.hasAttribute('data-fine')) return false;
        const text = d.textContent.toLowerCase();
        return words.every((w) => text.includes(w));
      };
      all('.turn').forEach((turn) => {
        const calls = Array.from(turn.querySelectorAll('.call'));
        calls.forEach((c) => { c.hidden = !wanted(c); });
        turn.hidden = !calls.some((c) => !c.hidden) && !wanted(turn);
        if (words.length && calls.some((c) => !c.hidden)) turn.open = true;
      });
    };
    field.addEventListener('input', filter);
    bad.addEventListener('change', filter);
    document.getElementById('open').addEventListener('click', () => set(true));
    document.getElementById('close').addEventListener('click', () => set(false));
  }
  const reveal = () => {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    for (let d = target; d; d = d.parentElement) if (d.tagName === 'DETAILS') { d.open = true; d.hidden = false; }
    if (target) target.scrollIntoView();
  };
  addEventListener('hashchange', reveal);
  reveal();
  let closed = [];
  addEventListener('beforeprint', () => { closed = all('details:not([open])'); closed.forEach((d) => { d.open = true; }); });
  addEventListener('afterprint', () => { closed.forEach((d) => { d.open = false; }); });
})();
