// a click on the title of a column sorts the table, the largest first; also after a page was changed without being loaded
document$.subscribe(() => document.querySelectorAll("article table:not([class])").forEach((table) => new Tablesort(table, { descending: true })));
