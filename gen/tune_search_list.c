/* tune_search_list.c: the list of plans of a search, each once */
#include "tune_search.h"

#include <stdlib.h>
#include <string.h>

const char *tune_state_name(tune_state state) {
    static const char *const names[TUNE_STATES] = {"ok", "crashed", "hung", "wrong", "refused"};
    return (unsigned)state < TUNE_STATES ? names[state] : NULL;
}

static bool same_plan(const ffn_plan *a, const ffn_plan *b) {
    char left[512], right[512];
    return !ffn_plan_format(a, left, sizeof left, NULL) && !ffn_plan_format(b, right, sizeof right, NULL) &&
           !strcmp(left, right);
}

int tune_search_find(const tune_search *search, const ffn_plan *plan) {
    for (int i = 0; i < search->count; i++) {
        if (same_plan(&search->candidates[i].plan, plan))
            return i;
    }
    return -1;
}

bool tune_search_add(tune_search *search, const ffn_plan *plan) {
    if (tune_search_find(search, plan) >= 0)
        return true;
    if (search->count == search->room) {
        int room = search->room ? 2 * search->room : 64;
        tune_candidate *candidates = realloc(search->candidates, (size_t)room * sizeof *candidates);
        if (!candidates)
            return false;
        search->candidates = candidates;
        search->room = room;
    }
    search->candidates[search->count++] = (tune_candidate){
        .plan = *plan, .model_ms = search->model_ms ? search->model_ms(search->self, plan) : 0, .state = TUNE_PENDING};
    return true;
}

void tune_search_clear(tune_search *search) {
    free(search->candidates);
    free(search->reference_ms);
    search->candidates = NULL;
    search->reference_ms = NULL;
    search->count = search->room = search->reference_count = search->reference_room = 0;
}
