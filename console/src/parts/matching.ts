// Commands found by some letters of their title.

export interface Command {
  title: string;
  about: string;
  run: () => void;
}

/** Commands whose title has all letters of the text in order, those with the whole text first. */
export function matching(text: string, commands: Command[]): Command[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return commands;
  const score = (title: string) => {
    const at = title.toLowerCase().indexOf(wanted);
    if (at >= 0) return at;
    return inOrder(wanted, title.toLowerCase()) ? 1000 : -1;
  };
  return commands
    .map((command) => ({ command, score: score(command.title) }))
    .filter((one) => one.score >= 0)
    .sort((one, other) => one.score - other.score || one.command.title.length - other.command.title.length)
    .map((one) => one.command);
}

function inOrder(letters: string, text: string): boolean {
  let at = 0;
  for (const letter of letters) {
    at = text.indexOf(letter, at) + 1;
    if (!at) return false;
  }
  return true;
}
