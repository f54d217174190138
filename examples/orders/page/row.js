/** An element with its attributes and its text, or its children. */
export function row(name, attributes, content) {
  const element = document.createElement(name)
  for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value)
  element.append(...[content].flat())
  return element
}
