// The switch between light and dark.

import { switchTheme, theme } from "../base/theme.ts";
import { Icon } from "./Icon.tsx";

export function ThemeButton() {
  const dark = theme.value === "dark";
  return (
    <button type="button" class="plain" aria-label={dark ? "Use light colours" : "Use dark colours"} onClick={switchTheme}>
      <Icon name={dark ? "sun" : "moon"} />
    </button>
  );
}
