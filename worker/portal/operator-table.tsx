import type { Child } from "hono/jsx";

export interface Column {
  readonly name: string;
  /** `long`: names that strangers chose; broken anywhere. `tight`: never broken. `actions`: links that do something to the row. */
  readonly kind?: "number" | "long" | "tight" | "actions";
}

/** A table of the console. On a phone each row is a card, and each cell says its column's name. */
export function Table({ columns, rows }: { columns: readonly Column[]; rows: readonly (readonly Child[])[] }) {
  return (
    <div class="table cards">
      <table>
        <thead>
          <tr>
            {columns.map(({ name, kind }) => (
              <th scope="col" class={kind === "number" ? "number" : undefined}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((cells) => (
            <tr>
              {columns.map(({ name, kind }, i) => (
                <td class={kind} data-label={name}>
                  {cells[i]}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
