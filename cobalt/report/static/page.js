// The page is complete without this script. It only keeps an example open that an address points to.
"use strict";
const open = () => {
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) { target.open = true; target.scrollIntoView(); }
};
addEventListener("hashchange", open);
open();
